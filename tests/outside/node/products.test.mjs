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

test('another person at the same product is not ada', { timeout: 120_000 }, async () => {
  const grace = demo.user('grace');
  const page = await newPerson(browser);
  const steps = await enter(page, demo.products[0], grace, grace.email);
  assert.ok(steps.includes('password'));
  assert.ok(!(await page.locator('body').innerText()).includes(demo.user('ada').email));
});
