// openid-client on a device without a keyboard, and a person who approves or denies in a browser elsewhere.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import * as oidc from 'openid-client';
import { decided, look, newPerson, startBrowser, walk } from './lib/browser.mjs';
import { DEVICE_GRANT, discover, errorOf, getJson, postForm } from './lib/client.mjs';
import { startDemo } from './lib/demo.mjs';

let demo, browser;
before(async () => {
  demo = await startDemo();
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  await demo?.stop();
});

const limit = { timeout: 120_000 };

/** The device's side: a code, and a poll that openid-client keeps up until there is an answer. */
async function askForCode() {
  const config = await discover(demo, demo.clients.cli.client_id, oidc.None());
  const device = await oidc.initiateDeviceAuthorization(config, { scope: 'openid profile email' });
  assert.match(device.user_code, /^[A-Z0-9]{4}-[A-Z0-9]{4}$/);
  const answer = oidc.pollDeviceAuthorizationGrant(config, device, undefined, { signal: AbortSignal.timeout(60_000) });
  answer.catch(() => {}); // each test looks at it in its own time
  return { config, device, answer };
}

/** The person's side: opens an address and decides; what they had to do. */
async function decide(address, decision, { user, userCode }) {
  const page = await newPerson(browser);
  await page.goto(address);
  return walk(page, { user, userCode, decision, done: decided(decision) });
}

test('ada approves by the link that the device shows, and the device knows her plan', limit, async () => {
  const { config, device, answer } = await askForCode();
  const steps = await decide(device.verification_uri_complete, 'allow', { user: demo.user('ada') });
  assert.ok(steps.includes('password') && steps.at(-1) === 'allow', `sign in, then allow: ${steps}`);
  const tokens = await answer;
  assert.ok(tokens.refresh_token, 'a device gets a refresh token');

  const { status, body } = await getJson(`${demo.issuer}/api/subscription`, tokens.access_token);
  assert.equal(status, 200, JSON.stringify(body));
  assert.equal(body.plan, demo.user('ada').plan);
  assert.equal(body.plan, 'pro');
  assert.equal(body.service, demo.services.cli);

  const user = await getJson(`${demo.issuer}/api/user`, tokens.access_token);
  assert.equal(user.body.email, demo.user('ada').email);

  const renewed = await oidc.refreshTokenGrant(config, tokens.refresh_token);
  assert.ok(renewed.access_token);
});

test('grace types the code by hand, in small letters and without the dash', limit, async () => {
  const { device, answer } = await askForCode();
  const userCode = device.user_code.replace('-', '').toLowerCase();
  const steps = await decide(device.verification_uri, 'allow', { user: demo.user('grace'), userCode });
  assert.ok(steps.includes('user_code'), `the page asks for the code: ${steps}`);
  const tokens = await answer;
  const { body } = await getJson(`${demo.issuer}/api/subscription`, tokens.access_token);
  assert.equal(body.plan, 'free', JSON.stringify(body));
});

test('who denies gives the device access_denied', limit, async () => {
  const { device, answer } = await askForCode();
  const steps = await decide(device.verification_uri_complete, 'deny', { user: demo.user('ada') });
  assert.equal(steps.at(-1), 'deny');
  assert.equal(await errorOf(answer), 'access_denied');
});

test('two clicks on Allow, and a step back, show that the device is signed in', limit, async () => {
  const { device, answer } = await askForCode();
  const page = await newPerson(browser);
  await page.goto(device.verification_uri_complete);
  const asks = async () => (await page.locator('button[name="decision"]:visible').count()) > 0;
  await walk(page, { user: demo.user('ada'), decision: 'none', done: asks });
  await page.locator('button[value="allow"]').dblclick();
  const signedIn = page.getByRole('heading', { name: 'Your device is signed in' });
  await signedIn.waitFor();
  assert.ok((await answer).access_token);
  await page.goBack();
  await signedIn.waitFor({ timeout: 5000 }).catch(async () => assert.fail(`after a step back: ${await look(page)}`));
});

test('opening the link approves nothing', limit, async () => {
  const config = await discover(demo, demo.clients.cli.client_id, oidc.None());
  const device = await oidc.initiateDeviceAuthorization(config, { scope: 'openid' });
  const page = await newPerson(browser);
  await page.goto(device.verification_uri_complete);
  const { status, body, headers } = await postForm(config.serverMetadata().token_endpoint, {
    grant_type: DEVICE_GRANT,
    client_id: demo.clients.cli.client_id,
    device_code: device.device_code,
  });
  assert.equal(status, 400);
  assert.equal(body.error, 'authorization_pending');
  assert.equal(headers.get('cache-control'), 'no-store');
});
