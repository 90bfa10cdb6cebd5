// Deletions as users meet them: a signed-in browser is out at the next click, and a deleted organization comes back.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { click, look, send } from './lib/browser.mjs';
import { lookAt } from './lib/page_checks.mjs';
import { startStage } from './lib/stage.mjs';

const limit = { timeout: 180_000 };

let stage, demo, browser;
before(async () => {
  stage = await startStage();
  ({ demo, browser } = stage);
});
after(() => stage?.stop());

const org = () => demo.organization.slug;
const orgPage = (name) => `${demo.issuer}/o/${org()}/${name}`;
const atAccount = (page) => page.url() === orgPage('account');
const textOf = (page) => page.locator('body').innerText();
const asksForPassword = async (page) => (await page.locator('input[name="password"]').count()) > 0;

async function signIn(page, { email, password }) {
  await page.goto(orgPage('login'));
  await send(page, { email, password });
  return atAccount(page);
}

/** A person on the account page, who is signed in at a product too. */
async function insider(user) {
  const page = await stage.anybody();
  assert.ok(await signIn(page, user), await look(page));
  await page.goto(demo.products[0].url);
  const enter = page.getByRole('link', { name: 'Sign in' }).first();
  await Promise.all([page.waitForNavigation(), enter.click()]);
  assert.ok((await textOf(page)).includes(user.email), `known at the product: ${await look(page)}`);
  await page.goto(orgPage('account'));
  return page;
}

async function isOutOfTheProduct(page, { email }) {
  await page.goto(demo.products[0].url);
  return !(await textOf(page)).includes(email);
}

test('a deleted user is out at the next click, everywhere and for good', limit, async () => {
  const grace = demo.user('grace');
  const page = await insider(grace);
  const { stderr } = await stage.terminal.run('user', 'delete', grace.email, '--org', org());
  assert.match(stderr, /is deleted\. Backups keep the data/);
  await click(page, 'a', 'Change your password');
  assert.ok(await asksForPassword(page), `out: ${await look(page)}`);
  assert.ok(!(await textOf(page)).includes(grace.email), await look(page));
  assert.ok(await isOutOfTheProduct(page, grace), await look(page));
  assert.ok(!(await signIn(page, grace)), await look(page));
  assert.match(await look(page), /E-mail address or password is wrong/);
  assert.ok(await signIn(await stage.anybody(), demo.user('ada')), 'others are not');
});

test('a deleted organization lets nobody in, and its restoration brings back who was signed in', limit, async () => {
  const ada = demo.user('ada');
  const page = await insider(ada);
  await stage.terminal.run('org', 'delete', org(), '--confirm', org());
  await click(page, 'a', 'Change your password');
  assert.match(await look(page), /Sign-in is not possible.*This organization is deleted/);
  assert.ok(await isOutOfTheProduct(page, ada), await look(page));
  await lookAt(browser, 'organization-deleted', (one) => one.goto(orgPage('login')), { status: 403 });

  const { stdout } = await stage.terminal.run('org', 'restore', org(), '--json');
  assert.equal(JSON.parse(stdout).status, 'active');
  await page.goto(orgPage('account'));
  assert.ok(atAccount(page), `no password is needed: ${await look(page)}`);
  assert.ok(await signIn(await stage.anybody(), ada), 'and a new browser signs in');
});
