// RP-initiated logout, as openid-client asks for it: with the client's id, with an ID token, and back to the client.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import * as oidc from 'openid-client';
import { authorize, look, newPerson, startBrowser } from './lib/browser.mjs';
import { discover, newRequest } from './lib/client.mjs';
import { startDemo } from './lib/demo.mjs';

const limit = { timeout: 120_000 };
let demo, browser, config, back;
before(async () => {
  demo = await startDemo();
  browser = await startBrowser();
  const client = demo.clients.web;
  [back] = client.redirect_uris;
  config = await discover(demo, client.client_id, oidc.ClientSecretBasic(client.client_secret));
});
after(async () => {
  await browser?.close();
  await demo?.stop();
});

/** Ada, signed in at the client, with her ID token. */
async function signedIn() {
  const page = await newPerson(browser);
  const { url, checks } = await newRequest(config, back);
  const { answer } = await authorize(page, url, back, { user: demo.user('ada') });
  const tokens = await oidc.authorizationCodeGrant(config, answer, checks);
  return { page, idToken: tokens.id_token };
}

/** The address of the client that the browser is sent to. Nobody answers there. */
async function sentTo(page, act) {
  const sent = page.waitForRequest((request) => request.isNavigationRequest() && request.url().startsWith(back));
  await Promise.all([sent, act().catch(() => {})]);
  return (await sent).url();
}

async function isSignedOut(page) {
  const other = await page.context().newPage();
  await other.goto(`${demo.issuer}/o/acme/account`);
  return (await other.locator('input[name="password"]').count()) > 0;
}

test('with its id alone, a client has the user asked first', limit, async () => {
  const { page } = await signedIn();
  const url = oidc.buildEndSessionUrl(config, { post_logout_redirect_uri: back, state: 'bye' });
  await page.goto(url.href);
  assert.ok(!(await isSignedOut(page)), await look(page));
  const target = await sentTo(page, () => page.getByRole('button', { name: 'Sign out' }).click());
  assert.equal(target, `${back}?state=bye`);
  assert.ok(await isSignedOut(page), await look(page));
});

test('with an ID token, the user is signed out and sent back at once, also the second time', limit, async () => {
  const { page, idToken } = await signedIn();
  const parameters = { id_token_hint: idToken, post_logout_redirect_uri: back, state: 'bye' };
  for (let times = 0; times < 2; times += 1) {
    const { href } = oidc.buildEndSessionUrl(config, parameters);
    const next = await page.context().newPage();
    assert.equal(await sentTo(next, () => next.goto(href)), `${back}?state=bye`);
    assert.ok(await isSignedOut(page), await look(page));
  }
});

test('without parameters, the user is asked, signed out and told so', limit, async () => {
  const { page } = await signedIn();
  await page.goto(`${demo.issuer}/auth/logout`);
  assert.ok(!(await isSignedOut(page)), await look(page));
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: 'You are signed out' }).waitFor();
  assert.ok(await isSignedOut(page), await look(page));
});

test('with an address and no client, the user is asked, signed out and not sent anywhere', limit, async () => {
  const { page } = await signedIn();
  await page.goto(`${demo.issuer}/auth/logout?${new URLSearchParams({ post_logout_redirect_uri: back })}`);
  assert.ok(!(await isSignedOut(page)), await look(page));
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: 'You are signed out' }).waitFor();
  assert.ok(page.url().startsWith(demo.issuer), await look(page));
  assert.ok(await isSignedOut(page), await look(page));
});
