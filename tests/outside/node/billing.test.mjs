// Stripe's own library signs events as Stripe does, and they change a plan.

import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import Stripe from 'stripe';
import { newPerson, startBrowser } from './lib/browser.mjs';
import { startDemo } from './lib/demo.mjs';
import { signInTerminal } from './lib/terminal.mjs';

const SECRET = 'whsec_as_the_dashboard_shows_it_0123456789';
const stripe = new Stripe('sk_test_is_not_used');
const limit = { timeout: 120_000 };

let demo, browser, terminal, folder, endpoint;
before(async () => {
  demo = await startDemo();
  browser = await startBrowser();
  terminal = await signInTerminal(demo, await newPerson(browser), demo.organization.admin);
  folder = await mkdtemp(join(tmpdir(), 'sarsen-billing-'));
  const file = join(folder, 'secret');
  await writeFile(file, `${SECRET}\n`);
  endpoint = (await administer('billing', 'create', 'Stripe', '--test')).endpoint;
  await administer('billing', 'change', '--secret-file', file);
  await administer('billing', 'price', 'set', 'price_starter', '--plan', 'starter');
  await administer('billing', 'price', 'set', 'price_pro', '--plan', 'pro');
});
after(async () => {
  if (folder) await rm(folder, { recursive: true, force: true });
  await terminal?.leave();
  await browser?.close();
  await demo?.stop();
});

/** A command of the owner, and what it prints. */
async function administer(...args) {
  const { stdout } = await terminal.run(...args, '--json');
  return JSON.parse(stdout);
}

/** Sends an event with the header that Stripe's library makes. */
async function send(event, options = {}) {
  const payload = JSON.stringify(event, null, 2);
  const header = stripe.webhooks.generateTestHeaderString({ payload, secret: SECRET, ...options });
  const headers = { 'stripe-signature': header, 'content-type': 'application/json; charset=utf-8' };
  const response = await fetch(endpoint, { method: 'POST', headers, body: payload });
  return { status: response.status, body: await response.json() };
}

let events = 0;
function eventOf(type, object, created) {
  events += 1;
  const id = `evt_1Nx${events}`;
  return { id, object: 'event', api_version: '2026-01-28', created, livemode: false, type, data: { object } };
}

function subscription(status, price) {
  const current_period_end = Math.floor(Date.now() / 1000) + 30 * 86400;
  const items = { object: 'list', data: [{ id: 'si_1', price: { id: price }, current_period_end }] };
  return { id: 'sub_1Nx', object: 'subscription', customer: 'cus_Nx', status, items, metadata: {} };
}

const plans = async () => {
  const all = await administer('subscription', 'list', '--user', demo.user('grace').email);
  return all.filter(({ status }) => status !== 'canceled').map(({ plan, status }) => [plan, status]);
};

test('a checkout with a reference, a new plan, an end', limit, async () => {
  const { reference } = await administer('billing', 'reference', '--user', demo.user('grace').email);
  const now = Math.floor(Date.now() / 1000);
  // The subscription comes first, as it may.
  const created = eventOf('customer.subscription.created', subscription('active', 'price_starter'), now);
  assert.deepEqual(await send(created), { status: 200, body: { received: true, outcome: 'unknown_customer' } });
  assert.equal((await administer('billing', 'subscriptions', '--waiting')).length, 1);
  const session = { id: 'cs_test_1', object: 'checkout.session', mode: 'subscription', customer: 'cus_Nx' };
  session.client_reference_id = reference;
  const completed = await send(eventOf('checkout.session.completed', session, now));
  assert.deepEqual(completed, { status: 200, body: { received: true, outcome: 'applied' } });
  assert.deepEqual(await plans(), [['starter', 'active']]);

  const updated = eventOf('customer.subscription.updated', subscription('active', 'price_pro'), now + 60);
  assert.equal((await send(updated)).body.outcome, 'applied');
  assert.equal((await send(updated)).body.outcome, 'repeated');
  assert.deepEqual(await plans(), [['pro', 'active']]);
  const late = eventOf('customer.subscription.updated', subscription('past_due', 'price_starter'), now + 30);
  assert.equal((await send(late)).body.outcome, 'outdated');
  assert.deepEqual(await plans(), [['pro', 'active']]);
  const deleted = eventOf('customer.subscription.deleted', subscription('canceled', 'price_pro'), now + 90);
  assert.equal((await send(deleted)).body.outcome, 'applied');
  assert.deepEqual(await plans(), []);
});

test('another secret, an old time and a changed body are refused', limit, async () => {
  const event = eventOf('customer.subscription.created', subscription('active', 'price_pro'), 1);
  const old = Math.floor(Date.now() / 1000) - 3600;
  for (const options of [{ secret: 'whsec_another_one_0123456789' }, { timestamp: old }, { payload: '{}' }]) {
    const { status, body } = await send(event, options);
    assert.deepEqual([status, body.code], [400, 'invalid_signature'], JSON.stringify(options));
  }
});
