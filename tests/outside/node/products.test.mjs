// Two products, one sign-in: who signed in at the first is known at the second.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { look, newPerson, startBrowser, walk } from './lib/browser.mjs';
import { startDemo } from './lib/demo.mjs';
import { signInTerminal } from './lib/terminal.mjs';

let demo, browser;
before(async () => {
  demo = await startDemo();
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  await demo?.stop();
});

/** Opens a product, presses its "Sign in" if it has one, and goes on until it knows the person. */
async function enter(page, product, user, email) {
  await page.goto(product.url);
  const known = async () => page.url().startsWith(product.url) && (await page.locator('body').innerText()).includes(email);
  if (await known()) return [];
  const signIn = page.getByRole('link', { name: /sign in|log in/i }).or(page.getByRole('button', { name: /sign in|log in/i })).first();
  assert.ok((await signIn.count()) > 0, `a product offers to sign in: ${await look(page)}`);
  await signIn.click();
  await page.waitForLoadState('domcontentloaded');
  return walk(page, { user, done: known });
}

test('ada signs in at one product and is known at the other without a password', { timeout: 120_000 }, async () => {
  assert.ok(demo.products?.length >= 2, `the demo serves two sample products: ${JSON.stringify(demo.products)}`);
  const [first, second] = demo.products;
  const ada = demo.user('ada');
  const page = await newPerson(browser);

  const steps = await enter(page, first, ada, ada.email);
  assert.ok(steps.includes('password'), `the first product asks who she is: ${steps}`);
  const plan = await page.locator('body').innerText();
  assert.match(plan, new RegExp(ada.plan, 'i'), 'the product shows her plan');

  // No user is given here: a password field would fail the walk.
  const more = await enter(page, second, undefined, ada.email);
  assert.ok(!more.includes('password'), `the second product asks for nothing: ${more}`);
});

test('a plan that is changed in the terminal shows at both products on the next click', { timeout: 120_000 }, async () => {
  const ada = demo.user('ada');
  const page = await newPerson(browser);
  for (const product of demo.products) await enter(page, product, ada, ada.email);

  const terminal = await signInTerminal(demo, await newPerson(browser), demo.organization.admin);
  await terminal.run('subscription', 'change', '--org', demo.organization.slug, '--user', ada.email, '--plan', 'starter');
  for (const product of demo.products) {
    await page.goto(product.url);
    const shown = await page.locator('body').innerText();
    // The page also names the plan that one could change to.
    assert.match(shown, /your plan\s+starter\b/i, `${product.name} knows the new plan`);
    assert.doesNotMatch(shown, /priority support/i, `${product.name} has forgotten what the old one gave`);
  }
  await terminal.leave();
});

test('open pages show a changed plan without a click, and the end of the session', { timeout: 120_000 }, async () => {
  const ada = demo.user('ada');
  const first = await newPerson(browser);
  const [one, other] = demo.products;
  await enter(first, one, ada, ada.email);
  const second = await first.context().newPage();
  await enter(second, other, ada, ada.email);
  const pages = [first, second];
  const errors = pages.map((page) => {
    const seen = [];
    page.on('pageerror', (error) => seen.push(error.message));
    page.on('console', (message) => message.type() === 'error' && seen.push(message.text()));
    page.on('framenavigated', () => seen.push('the page was loaded'));
    return seen;
  });
  const terminal = await signInTerminal(demo, await newPerson(browser), demo.organization.admin);
  const org = ['--org', demo.organization.slug];
  const setPlan = (plan) => terminal.run('subscription', 'change', ...org, '--user', ada.email, '--plan', plan);
  const shows = (text) => Promise.all(pages.map((page) => page.getByText(text).first().waitFor()));
  await setPlan('starter');
  await shows(/^starter$/);
  await setPlan('pro');
  await shows(/^pro$/);
  await shows('priority support');
  await terminal.run('user', 'suspend', ada.email, ...org);
  await Promise.all(pages.map((page) => page.getByRole('link', { name: 'Sign in' }).waitFor()));
  assert.deepEqual(errors, [[], []]);
  await terminal.run('user', 'activate', ada.email, ...org);
  await terminal.leave();
});

test('six tabs of a product do not block each other', { timeout: 120_000 }, async () => {
  const ada = demo.user('ada');
  const page = await newPerson(browser);
  await enter(page, demo.products[0], ada, ada.email);
  const streams = [];
  page.context().on('request', (request) => request.url().endsWith('/live') && streams.push(request));
  // A browser without a screen takes every tab for one that is seen; here a tab that another one covers is hidden.
  await page.context().addInitScript(() => {
    const covered = new BroadcastChannel('covered');
    let hidden = false;
    Object.defineProperty(document, 'hidden', { get: () => hidden });
    covered.addEventListener('message', () => {
      hidden = true;
      document.dispatchEvent(new Event('visibilitychange'));
    });
    covered.postMessage('');
  });
  for (let tab = 0; tab < 8; tab += 1) {
    const next = await page.context().newPage();
    await next.goto(demo.products[0].url);
    assert.match(await next.locator('body').innerText(), new RegExp(ada.email));
  }
  assert.ok(streams.length >= 8, `${streams.length} streams were opened`);
});

test('another person at the same product is not ada', { timeout: 120_000 }, async () => {
  const grace = demo.user('grace');
  const page = await newPerson(browser);
  const steps = await enter(page, demo.products[0], grace, grace.email);
  assert.ok(steps.includes('password'));
  assert.ok(!(await page.locator('body').innerText()).includes(demo.user('ada').email));
});
