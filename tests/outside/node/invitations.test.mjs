// Invitations and sign-up as people meet them, in a real browser without JavaScript. Screenshots go to
// target/screenshots/.

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { look, newPerson, startBrowser, submitOf } from './lib/browser.mjs';
import { ROOT, startDemo } from './lib/demo.mjs';
import { horizontalScroll, listenForTrouble, unlabelled } from './lib/page_checks.mjs';
import { signInTerminal } from './lib/terminal.mjs';

const SHOTS = join(ROOT, 'target/screenshots');
const PASSWORD = 'three walls of grey stone';
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

const anybody = () => newPerson(browser, { javaScriptEnabled: false });
const here = () => `${demo.issuer}/invitation`;
const atConsole = (page) => page.url() === `${demo.issuer}/console`;

/** A command of the administrator, and what it prints. */
async function administer(...args) {
  const { stdout } = await terminal.run(...args, '--json');
  return JSON.parse(stdout);
}

const invite = (email, role) => administer('member', 'invite', email, '--role', role);

async function roleOf(email) {
  const members = await administer('member', 'list');
  return members.find((member) => member.email === email)?.role;
}

/** Fills in the fields of a form and sends it. */
async function send(page, fields) {
  const names = Object.keys(fields);
  for (const name of names) await page.locator(`[name="${name}"]:visible`).fill(fields[name]);
  await Promise.all([page.waitForNavigation(), submitOf(page, names.at(-1)).click()]);
}

async function click(page, selector, hasText) {
  await Promise.all([page.waitForNavigation(), page.locator(selector, { hasText }).click()]);
}

/** Looks at an address on a phone and a desk, in light and dark. `status` is what the page itself answers. */
async function lookAt(name, open, status = 200) {
  for (const width of [390, 1280]) {
    for (const colorScheme of ['light', 'dark']) {
      const where = `${name} at ${width} px, ${colorScheme}`;
      const page = await newPerson(browser, { viewport: { width, height: 844 }, colorScheme });
      const trouble = listenForTrouble(page);
      await open(page);
      await page.screenshot({ path: join(SHOTS, `${name}-${width}-${colorScheme}.png`), fullPage: true });
      assert.equal(await horizontalScroll(page), 0, `${where}: wider than the screen by so many pixels`);
      assert.deepEqual(await unlabelled(page), [], `${where}: each field has a label`);
      const unexpected = trouble.filter((line) => !line.includes(String(status)));
      assert.deepEqual(unexpected, [], `${where}: nothing in the browser's console`);
      await page.context().close();
    }
  }
}

const signedIn = (link, { email, password }) => async (page) => {
  await page.goto(`${demo.issuer}/login`);
  await send(page, { email, password });
  await page.goto(link);
};

test('an invited person creates an account and gets the role, once', limit, async () => {
  const { url } = await invite('hedy@acme.test', 'admin');
  await lookAt('invitation', (page) => page.goto(url));

  const page = await anybody();
  await page.goto(url);
  assert.equal(page.url(), here(), 'the secret does not stay in the address');
  assert.match(await look(page), /admin@acme\.test invites hedy@acme\.test/);
  await send(page, { name: 'Hedy', password: PASSWORD });
  assert.ok(atConsole(page), await look(page));
  assert.match(await look(page), /you are an admin/);
  assert.equal(await roleOf('hedy@acme.test'), 'admin');

  const late = await anybody();
  await late.goto(url);
  assert.match(await look(late), /This invitation is not valid/);
});

test('an account that exists signs in to accept, and no other account can', limit, async () => {
  const { owner, organization } = demo;
  const { url } = await invite(owner.email, 'member');
  await lookAt('invitation-other', signedIn(url, organization.admin));
  await lookAt('invitation-accept', signedIn(url, owner));

  const page = await anybody();
  await signedIn(url, organization.admin)(page);
  assert.match(await look(page), /You are signed in as admin@acme\.test/);
  await click(page, 'a', 'Use another account');
  await send(page, { email: owner.email, password: owner.password });
  assert.equal(page.url(), here(), await look(page));
  assert.equal(await roleOf(owner.email), undefined, 'opening gives nothing');
  await click(page, 'button', 'Accept');
  assert.ok(atConsole(page), await look(page));
  assert.equal(await roleOf(owner.email), 'member');
});

test('sign-up is open where the organization says so', limit, async () => {
  const signUp = `${demo.issuer}/o/${demo.organization.slug}/signup`;
  const page = await anybody();
  await administer('org', 'change', demo.organization.slug, '--sign-up', 'off');
  await lookAt('signup-closed', (one) => one.goto(`${demo.issuer}/o/platform/signup`), 403);
  assert.equal((await page.goto(signUp)).status(), 403);
  await click(page, 'a', 'Sign in');
  assert.equal(await page.locator('a', { hasText: 'Create an account' }).count(), 0, await look(page));
  await administer('org', 'change', demo.organization.slug, '--sign-up', 'on');
  await page.goto(signUp);
  await send(page, { name: 'Nora', email: 'nora@acme.test', password: PASSWORD });
  assert.match(await look(page), /nora@acme\.test/);
});

test('the server gets a second owner, whose address the link verifies', limit, async () => {
  const own = await signInTerminal(demo, await newPerson(browser), demo.owner);
  try {
    const { url } = JSON.parse((await own.run('owner', 'invite', 'second@sarsen.test', '--json')).stdout);
    await lookAt('invitation-owner', (page) => page.goto(url));
    const page = await anybody();
    await page.goto(url);
    await send(page, { name: 'Second', password: PASSWORD });
    assert.match(await look(page), /an owner of this server/);
    const owners = JSON.parse((await own.run('owner', 'list', '--json')).stdout);
    assert.deepEqual(owners.map(({ email }) => email).sort(), [demo.owner.email, 'second@sarsen.test'].sort());
    const users = await own.run('user', 'show', 'second@sarsen.test', '--org', 'platform', '--json');
    assert.equal(JSON.parse(users.stdout).email_verified, true);
  } finally {
    await own.leave();
  }
});
