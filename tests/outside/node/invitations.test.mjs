// Invitations and sign-up as people meet them, in a real browser without JavaScript. Screenshots go to
// target/screenshots/.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { click, look, newPerson, send } from './lib/browser.mjs';
import { lookAt } from './lib/page_checks.mjs';
import { startStage } from './lib/stage.mjs';
import { signInTerminal } from './lib/terminal.mjs';

const PASSWORD = 'three walls of grey stone';
const limit = { timeout: 180_000 };

let stage, demo, browser;
before(async () => {
  stage = await startStage();
  ({ demo, browser } = stage);
});
after(() => stage?.stop());

const anybody = () => stage.anybody();
const here = () => `${demo.issuer}/invitation`;
const atConsole = (page) => page.url() === `${demo.issuer}/console`;

/** A command of the administrator, and what it prints. */
async function administer(...args) {
  const { stdout } = await stage.terminal.run(...args, '--json');
  return JSON.parse(stdout);
}

const invite = (email, role) => administer('member', 'invite', email, '--role', role);

async function roleOf(email) {
  const members = await administer('member', 'list');
  return members.find((member) => member.email === email)?.role;
}

const signedIn = (link, { email, password }) => async (page) => {
  await page.goto(`${demo.issuer}/login`);
  await send(page, { email, password });
  await page.goto(link);
};

test('an invited person creates an account and gets the role, once', limit, async () => {
  const { url } = await invite('hedy@acme.test', 'admin');
  await lookAt(browser, 'invitation', (page) => page.goto(url));

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
  await lookAt(browser, 'invitation-other', signedIn(url, organization.admin));
  await lookAt(browser, 'invitation-accept', signedIn(url, owner));

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
  await lookAt(browser, 'signup-closed', (one) => one.goto(`${demo.issuer}/o/platform/signup`), { status: 403 });
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
    await lookAt(browser, 'invitation-owner', (page) => page.goto(url));
    const page = await anybody();
    await page.goto(url);
    await send(page, { name: 'Second', password: PASSWORD });
    assert.match(await look(page), /an owner of this server/);
    const owners = JSON.parse((await own.run('owner', 'list', '--json')).stdout);
    assert.deepEqual(owners.map(({ email }) => email).sort(), [demo.owner.email, 'second@sarsen.test'].sort());

    // Nobody has verified the address of this account: the link does, so the account gets a new password.
    const taken = { email: 'grown@acme.test', password: PASSWORD };
    const { url: asAdmin } = await invite(taken.email, 'member');
    await page.context().clearCookies();
    await page.goto(asAdmin);
    await send(page, { name: 'Grown', password: PASSWORD });
    assert.ok(atConsole(page), await look(page));
    const { url: asOwner } = JSON.parse((await own.run('owner', 'invite', taken.email, '--json')).stdout);
    await lookAt(browser, 'invitation-password', signedIn(asOwner, taken));
    await page.goto(asOwner);
    assert.match(await look(page), /Choose a new password/);
    await send(page, { name: 'Grown', password: 'four walls of blue stone' });
    assert.match(await look(page), /an owner of this server/);
    const late = await anybody();
    await late.goto(`${demo.issuer}/login`);
    await send(late, taken);
    assert.ok(!atConsole(late), `the password from before is void: ${await look(late)}`);
    const users = await own.run('user', 'show', 'second@sarsen.test', '--org', 'platform', '--json');
    assert.equal(JSON.parse(users.stdout).email_verified, true);
  } finally {
    await own.leave();
  }
});
