// Passwords as people meet them, in a real browser without JavaScript: the first one, a change, a forgotten one, and the
// way back of an owner. Screenshots go to target/screenshots/.

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { look, newPerson, startBrowser, submitOf } from './lib/browser.mjs';
import { ROOT, startDemo } from './lib/demo.mjs';
import { horizontalScroll, listenForTrouble, unlabelled } from './lib/page_checks.mjs';
import { startServer } from './lib/server.mjs';
import { signInTerminal } from './lib/terminal.mjs';

const SHOTS = join(ROOT, 'target/screenshots');
const FIRST = 'three walls of grey stone';
const SECOND = 'four walls of blue stone';
const limit = { timeout: 180_000 };

let demo, browser, terminal;
before(async () => {
  demo = await startDemo();
  browser = await startBrowser();
  terminal = await signInTerminal(demo, await newPerson(browser), demo.organization.admin);
  await mkdir(SHOTS, { recursive: true });
});
after(async () => {
  await terminal?.leave();
  await browser?.close();
  await demo?.stop();
});

const org = () => demo.organization.slug;
const orgPage = (name) => `${demo.issuer}/o/${org()}/${name}`;
const anybody = () => newPerson(browser, { javaScriptEnabled: false });
const atAccount = (page) => page.url() === orgPage('account');

/** A command of the administrator, and what it prints. */
async function administer(...args) {
  const { stdout } = await terminal.run(...args, '--org', org(), '--json');
  return JSON.parse(stdout);
}

/** Fills in the fields of a form and sends it. */
async function send(page, fields) {
  const names = Object.keys(fields);
  for (const name of names) await page.locator(`[name="${name}"]:visible`).fill(fields[name]);
  await Promise.all([page.waitForNavigation(), submitOf(page, names.at(-1)).click()]);
}

async function signIn(page, email, password) {
  await page.goto(orgPage('login'));
  await send(page, { email, password });
  return atAccount(page);
}

/** Looks at an address on a phone and a desk, in light and dark. */
async function lookAt(name, open) {
  for (const width of [390, 1280]) {
    for (const colorScheme of ['light', 'dark']) {
      const where = `${name} at ${width} px, ${colorScheme}`;
      const page = await newPerson(browser, { viewport: { width, height: 844 }, colorScheme });
      const trouble = listenForTrouble(page);
      await open(page);
      await page.screenshot({ path: join(SHOTS, `${name}-${width}-${colorScheme}.png`), fullPage: true });
      assert.equal(await horizontalScroll(page), 0, `${where}: wider than the screen by so many pixels`);
      assert.deepEqual(await unlabelled(page), [], `${where}: each field has a label`);
      assert.deepEqual(trouble, [], `${where}: nothing in the browser's console`);
      await page.context().close();
    }
  }
}

test('a new account gets its first password by a link, and changes it', limit, async () => {
  const email = 'new@acme.test';
  const made = await administer('user', 'create', email, '--password-link');
  const link = made.password_link.url;
  await lookAt('password-first', (page) => page.goto(link));

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
  await lookAt('password-change', async (one) => {
    await one.goto(orgPage('login'));
    await send(one, { email, password: SECOND });
    await one.goto(orgPage('account/password'));
  });
});

test('a forgotten password is replaced by a link, and "Not now" changes nothing', limit, async () => {
  const { email, password } = demo.user('grace');
  await lookAt('login-forgotten', async (page) => {
    await page.goto(orgPage('login'));
    await page.locator('summary').click();
    assert.match(await look(page), /Ask an administrator of Acme/);
  });
  const { url } = await administer('user', 'password-link', email);
  const signedIn = await anybody();
  assert.ok(await signIn(signedIn, email, password), await look(signedIn));

  const page = await anybody();
  await page.goto(url);
  await Promise.all([page.waitForNavigation(), page.locator('button[name="later"]').click()]);
  assert.match(await look(page), /Nothing was changed/);
  await signedIn.goto(orgPage('account'));
  assert.ok(atAccount(signedIn), 'the session goes on');

  await lookAt('password-forgotten', (one) => one.goto(url));
  await page.goto(url);
  await send(page, { password: FIRST });
  assert.ok(atAccount(page), await look(page));
  await signedIn.goto(orgPage('account'));
  assert.ok(!atAccount(signedIn), `the old session has ended: ${await look(signedIn)}`);
  await page.goto(url);
  assert.match(await look(page), /This link does not work/);
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
