// Passwords as people meet them, in a real browser without JavaScript: the first one, a change, a forgotten one, and the
// way back of an owner. Screenshots go to target/screenshots/.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { look, send } from './lib/browser.mjs';
import { lookAt } from './lib/page_checks.mjs';
import { startServer } from './lib/server.mjs';
import { startStage } from './lib/stage.mjs';

const FIRST = 'three walls of grey stone';
const SECOND = 'four walls of blue stone';
const limit = { timeout: 180_000 };

let stage, demo, browser;
before(async () => {
  stage = await startStage();
  ({ demo, browser } = stage);
});
after(() => stage?.stop());

const org = () => demo.organization.slug;
const orgPage = (name) => `${demo.issuer}/o/${org()}/${name}`;
const anybody = () => stage.anybody();
const atAccount = (page) => page.url() === orgPage('account');

/** A command of the administrator, and what it prints. */
async function administer(...args) {
  const { stdout } = await stage.terminal.run(...args, '--org', org(), '--json');
  return JSON.parse(stdout);
}

async function mailsTo(address) {
  return (await fetch(`${demo.issuer}/dev/mail.json?to=${encodeURIComponent(address)}`)).json();
}

/** The text of the newest mail to somebody, once there is one. */
async function mailTo(address) {
  for (let tries = 0; tries < 200; tries += 1) {
    const [newest] = await mailsTo(address);
    if (newest) return newest.text;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`no mail to ${address}`);
}

async function signIn(page, email, password) {
  await page.goto(orgPage('login'));
  await send(page, { email, password });
  return atAccount(page);
}

test('a new account gets its first password by a link, and changes it', limit, async () => {
  const email = 'new@acme.test';
  const made = await administer('user', 'create', email, '--password-link');
  const link = made.password_link.url;
  await lookAt(browser, 'password-first', (page) => page.goto(link));

  const page = await anybody();
  await page.goto(link);
  assert.equal(page.url(), `${demo.issuer}/password`, 'the secret does not stay in the address');
  await send(page, { password: FIRST });
  assert.ok(atAccount(page), await look(page));
  assert.match(await look(page), /Your password is set/);

  const elsewhere = await anybody();
  assert.ok(await signIn(elsewhere, email, FIRST), await look(elsewhere));
  await page.locator('a', { hasText: 'Change your password' }).click();
  await send(page, { new_password: SECOND });
  assert.ok(atAccount(page), await look(page));
  assert.match(await look(page), /Your password is changed/);
  await elsewhere.goto(orgPage('account'));
  assert.ok(!atAccount(elsewhere), `signed out elsewhere: ${await look(elsewhere)}`);
  assert.ok(!(await signIn(await anybody(), email, FIRST)), 'the old password is void');
  assert.ok(await signIn(await anybody(), email, SECOND), 'the new one is good');
  await lookAt(browser, 'password-change', async (one) => {
    await one.goto(orgPage('login'));
    await send(one, { email, password: SECOND });
    await one.goto(orgPage('account/password'));
  });
});

test('a forgotten password is replaced by a link, and "Not now" changes nothing', limit, async () => {
  const { email, password } = demo.user('grace');
  const { url } = await administer('user', 'password-link', email);
  const signedIn = await anybody();
  assert.ok(await signIn(signedIn, email, password), await look(signedIn));

  const page = await anybody();
  await page.goto(url);
  await Promise.all([page.waitForNavigation(), page.locator('button[name="later"]').click()]);
  assert.match(await look(page), /Nothing was changed/);
  await signedIn.goto(orgPage('account'));
  assert.ok(atAccount(signedIn), 'the session goes on');

  await lookAt(browser, 'password-forgotten', (one) => one.goto(url));
  await page.goto(url);
  await send(page, { password: FIRST });
  assert.ok(atAccount(page), await look(page));
  await signedIn.goto(orgPage('account'));
  assert.ok(!atAccount(signedIn), `the old session has ended: ${await look(signedIn)}`);
  await page.goto(url);
  assert.match(await look(page), /This link does not work/);
});

test('a forgotten password is replaced by a mail, in three forms', limit, async () => {
  const { email } = demo.user('ada');
  const ask = async (page, address) => {
    await page.goto(orgPage('login'));
    await page.getByRole('link', { name: 'Forgotten your password?' }).click();
    await send(page, { email: address });
    assert.match(await look(page), /Look into your mailbox/);
  };
  const stranger = 'nobody@acme.test';
  await lookAt(browser, 'forgot', (page) => page.goto(orgPage('forgot')));
  await lookAt(browser, 'code', (page) => ask(page, stranger));

  const page = await anybody();
  await ask(page, email);
  await send(page, { code: (await mailTo(email)).match(/\b\d{4} \d{4}\b/)[0] });
  await send(page, { password: SECOND });
  assert.ok(atAccount(page), await look(page));
  assert.ok(await signIn(await anybody(), email, SECOND), 'the new one is good');
  assert.deepEqual(await mailsTo(stranger), [], 'an address without an account gets nothing');
});

test('an owner comes back with a link from the machine, while the server runs', limit, async () => {
  const server = await startServer();
  try {
    const page = await anybody();
    await page.goto(await server.setUpLink());
    await send(page, { name: 'Olga', email: 'olga@sarsen.test', password: FIRST });
    assert.equal(page.url(), `${server.issuer}/console`, await look(page));

    const { stdout } = await server.run('owner', 'recover', '--email', 'olga@sarsen.test', '--json');
    const again = await anybody();
    await again.goto(JSON.parse(stdout).url);
    await send(again, { password: SECOND });
    assert.equal(again.url(), `${server.issuer}/console`, await look(again));
    await page.goto(`${server.issuer}/console`);
    assert.notEqual(page.url(), `${server.issuer}/console`, 'the session from before has ended');
    await page.goto(`${server.issuer}/login`);
    await send(page, { email: 'olga@sarsen.test', password: SECOND });
    assert.equal(page.url(), `${server.issuer}/console`, await look(page));
  } finally {
    await server.stop();
  }
});
