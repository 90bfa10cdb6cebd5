// The TypeScript client and the page of `examples/counters` against the real server: in Node.js, and in a real browser.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { Client } from '../../../sdk/typescript/dist/sarsen-client.js';
import { startBrowser } from './lib/browser.mjs';
import { startCounters } from './lib/examples.mjs';

let server;
let browser;
let names = 0;

before(async () => {
  [server, browser] = await Promise.all([startCounters(), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/** A client with a user of its own. `requests` are those that it sent; `frames` the events of its streams, after `stream` for each. */
async function signUp(t, options = {}) {
  const requests = [];
  const frames = [];
  const fetchAndNote = async (url, init) => {
    const response = await fetch(url, init);
    requests.push({ path: new URL(url).pathname, body: init.body && JSON.parse(init.body) });
    if (!response.headers.get('content-type')?.startsWith('text/event-stream')) return response;
    frames.push('stream');
    const decoder = new TextDecoder();
    const note = new TransformStream({
      transform(chunk, to) {
        frames.push(...[...decoder.decode(chunk, { stream: true }).matchAll(/^event: (\w+)/gm)].map(([, name]) => name));
        to.enqueue(chunk);
      },
    });
    return new Response(response.body.pipeThrough(note), response);
  };
  const anonymous = new Client({ url: server.url });
  const { value } = await anonymous.call('register', { name: `user ${(names += 1)} of ${process.pid}` });
  anonymous.close();
  const client = new Client({ url: server.url, token: () => value.token, fetch: fetchAndNote, ...options });
  t.after(() => client.close());
  return { client, requests, frames, token: value.token };
}

/** What a subscription delivers; `until(found)` waits for a value. */
function watch(client, query, args) {
  const values = [];
  let wake = () => {};
  const stop = client.live(query, args, (value) => {
    values.push(value);
    wake();
  });
  const until = async (found) => {
    while (!values.some(found)) await new Promise((resolve) => (wake = resolve));
    return values.find(found);
  };
  return { values, until, stop };
}

test('a mutation of one client reaches another, and lists receive the rows that changed', async (t) => {
  const [ada, bob] = [await signUp(t), await signUp(t)];
  const { value: counter } = await ada.client.call('create_counter', { name: 'apples' });
  const one = watch(bob.client, 'get_counter', { id: counter.id });
  const list = watch(bob.client, 'list_counters', { after: counter.id - 1 });
  await Promise.all([one.until(({ value }) => value === 0), list.until((rows) => rows.length > 0)]);
  for (let n = 0; n < 20; n += 1) await ada.client.call('create_counter', { name: `n${n}` });
  await list.until((rows) => rows.length === 20);
  await ada.client.call('increment', { id: counter.id });
  await one.until(({ value }) => value === 1);
  const rows = await list.until((rows) => rows[0].value === 1);
  assert.deepEqual(rows[0], { ...counter, value: 1 });
  assert.ok(bob.frames.includes('rows'), `the events were ${bob.frames}`);
  assert.equal(bob.requests.filter(({ path }) => path === '/live').length, 1);
});

test('two subscriptions to one counter share', async (t) => {
  const { client, requests } = await signUp(t);
  const { value: counter } = await client.call('create_counter', { name: 'shared' });
  const first = watch(client, 'get_counter', { id: counter.id });
  await first.until(() => true);
  const second = watch(client, 'get_counter', { id: counter.id });
  await second.until(() => true);
  await client.call('increment', { id: counter.id });
  await Promise.all([first, second].map((seen) => seen.until(({ value }) => value === 1)));
  assert.equal(requests.filter(({ path }) => path.startsWith('/live')).length, 1);
});

test('an optimistic increment is shown once, whatever comes first', async (t) => {
  const { client } = await signUp(t);
  const { value: counter } = await client.call('create_counter', { name: 'fast' });
  const seen = watch(client, 'get_counter', { id: counter.id });
  await seen.until(() => true);
  const add = (local) => local.update('get_counter', { id: counter.id }, (now) => ({ ...now, value: now.value + 1 }));
  for (let n = 0; n < 30; n += 1) await client.call('increment', { id: counter.id }, { optimistic: add });
  await Promise.all(Array.from({ length: 10 }, () => client.call('increment', { id: counter.id }, { optimistic: add })));
  await seen.until(({ value }) => value === 40);
  const shown = seen.values.map(({ value }) => value);
  assert.deepEqual(shown, [...shown].sort((one, other) => one - other), 'the value never goes back');
  assert.equal(Math.max(...shown), 40);
});

test('after a restart the client resumes, and what is unchanged is one line', { timeout: 60_000 }, async (t) => {
  const { client, frames } = await signUp(t);
  const { value: counter } = await client.call('create_counter', { name: 'kept' });
  const seen = watch(client, 'get_counter', { id: counter.id });
  const list = watch(client, 'list_counters', { after: counter.id - 1 });
  await Promise.all([seen.until(() => true), list.until(() => true)]);
  for (const end of [server.kill, server.terminate]) {
    const streams = () => frames.filter((frame) => frame === 'stream').length;
    const ofTheNewest = () => frames.slice(frames.lastIndexOf('stream'));
    const before = streams();
    await end();
    await server.start();
    while (streams() === before || !ofTheNewest().includes('same')) await new Promise((resolve) => setTimeout(resolve, 20));
    assert.ok(!ofTheNewest().includes('value'), `the events were ${ofTheNewest()}`);
  }
  await client.call('increment', { id: counter.id });
  await seen.until(({ value }) => value === 1);
  assert.deepEqual(seen.values.map(({ value }) => value), [0, 1], 'no value came twice');
});

test('where streams do not get through, polls deliver', { timeout: 60_000 }, async (t) => {
  const poll = async (url, init) => (new URL(url).pathname === '/live' ? new Response('') : fetch(url, init));
  const { client } = await signUp(t, { fetch: poll });
  const { value: counter } = await client.call('create_counter', { name: 'polled' });
  const seen = watch(client, 'get_counter', { id: counter.id });
  await seen.until(({ value }) => value === 0);
  await client.call('increment', { id: counter.id });
  await seen.until(({ value }) => value === 1);
});

test('a missing counter is a problem of its subscription alone', async (t) => {
  const { client } = await signUp(t);
  const problem = await new Promise((resolve) => client.live('get_counter', { id: 987_654 }, () => {}, resolve));
  assert.deepEqual([problem.code, problem.status], ['not_found', 404]);
  await assert.rejects(client.call('increment', { id: 'x' }), { status: 400 });
});

const TITLE = 'Counters';

/** Opens the page and signs up, unless the browser's tabs have done so before. */
async function open(context) {
  const page = await context.newPage();
  page.errors = [];
  page.on('pageerror', (error) => page.errors.push(error.message));
  page.on('console', (message) => message.type() === 'error' && page.errors.push(message.text()));
  await page.goto(server.url);
  assert.equal(await page.title(), TITLE);
  const form = page.locator('#register');
  await page.locator('#register:visible, #counters:visible').first().waitFor();
  if (await form.isVisible()) {
    await form.getByLabel('Your name').fill(`page ${(names += 1)} of ${process.pid}`);
    await form.getByRole('button').click();
  }
  await page.locator('#status[data-status="live"]').waitFor();
  return page;
}

const row = (page, name) => page.locator('#list li', { hasText: name });
const shows = (page, name, value) => row(page, name).locator('output', { hasText: new RegExp(`^${value}$`) }).waitFor();

async function create(page, name) {
  await page.getByLabel('New counter').fill(name);
  await page.getByRole('button', { name: 'Create' }).click();
}

/** A browser whose tabs share storage, locks and channels. The list of counters begins empty for a fresh server. */
async function newContext(t, options = {}) {
  const context = await browser.newContext({ reducedMotion: 'reduce', ...options });
  context.setDefaultTimeout(15_000);
  t.after(() => context.close());
  return context;
}

/** A server without counters, so that a new one is on the page's first page. */
async function emptyServer() {
  await server.stop();
  server = await startCounters();
}

test('two windows of two users move together', async (t) => {
  await emptyServer();
  const [one, other] = [await open(await newContext(t)), await open(await newContext(t))];
  await create(one, 'apples');
  for (let n = 1; n <= 3; n += 1) {
    await row(other, 'apples').getByRole('button').click();
    await Promise.all([shows(one, 'apples', n), shows(other, 'apples', n)]);
  }
  assert.deepEqual([...one.errors, ...other.errors], []);
});

test('six tabs share one stream, do not block each other, and another takes over', async (t) => {
  await emptyServer();
  const context = await newContext(t);
  let streams = 0;
  context.on('request', (request) => {
    if (request.method() === 'POST' && new URL(request.url()).pathname === '/live') streams += 1;
  });
  const tabs = [];
  for (let n = 0; n < 6; n += 1) tabs.push(await open(context));
  await create(tabs[5], 'pears');
  await Promise.all(tabs.map((tab) => shows(tab, 'pears', 0)));
  await row(tabs[3], 'pears').getByRole('button').click();
  await Promise.all(tabs.map((tab) => shows(tab, 'pears', 1)));
  assert.equal(streams, 1);
  // The first tab has the stream.
  await tabs.shift().close();
  await row(tabs[4], 'pears').getByRole('button').click();
  await Promise.all(tabs.map((tab) => shows(tab, 'pears', 2)));
  assert.equal(streams, 2);
  assert.deepEqual(tabs.flatMap((tab) => tab.errors), []);
});

/** A page with nothing but the client of this checkout, which watches one counter as the user of the other tabs. */
const PLAIN = `<!doctype html><title>Plain</title><script type="module">
  import { Client } from '/plain/client.js';
  const client = new Client({ token: () => localStorage.token });
  client.live('get_counter', { id: Number(location.hash.slice(1)) }, (counter) => (window.shown = counter.value));
</script>`;

test('tabs with queries of their own receive what changes', async (t) => {
  await emptyServer();
  const context = await newContext(t);
  const script = await readFile(new URL('../../../sdk/typescript/dist/sarsen-client.js', import.meta.url), 'utf8');
  await context.route('**/plain/page', (route) => route.fulfill({ contentType: 'text/html', body: PLAIN }));
  await context.route('**/plain/client.js', (route) => route.fulfill({ contentType: 'text/javascript', body: script }));
  const client = new Client({ url: server.url });
  const { value: user } = await client.call('register', { name: `plain ${process.pid}` });
  const own = new Client({ url: server.url, token: () => user.token });
  await context.addInitScript((token) => (localStorage.token = token), user.token);
  const tabs = [];
  for (let n = 0; n < 8; n += 1) {
    const { value: counter } = await own.call('create_counter', { name: `own ${n}` });
    const tab = await context.newPage();
    await tab.goto(`${server.url}/plain/page#${counter.id}`);
    await tab.waitForFunction('window.shown === 0');
    tabs.push({ tab, id: counter.id });
  }
  for (const { id } of tabs) await own.call('increment', { id });
  await Promise.all(tabs.map(({ tab }) => tab.waitForFunction('window.shown === 1')));
});

test('tabs of another user do not share', async (t) => {
  await emptyServer();
  const context = await newContext(t);
  let streams = 0;
  context.on('request', (request) => {
    if (request.method() === 'POST' && new URL(request.url()).pathname === '/live') streams += 1;
  });
  const first = await open(context);
  await create(first, 'plums');
  await shows(first, 'plums', 0);
  await first.getByRole('button', { name: 'Sign out' }).click();
  await first.locator('#register').waitFor();
  const second = await open(context);
  await shows(second, 'plums', 0);
  await shows(first, 'plums', 0);
  assert.equal(streams, 2);
});

test('the page resumes after a restart of the server', async (t) => {
  await emptyServer();
  const page = await open(await newContext(t));
  await create(page, 'figs');
  await shows(page, 'figs', 0);
  await server.kill();
  await page.locator('#status[data-status="waiting"]').waitFor();
  await shows(page, 'figs', 0);
  await server.start();
  await page.locator('#status[data-status="live"]').waitFor();
  await row(page, 'figs').getByRole('button').click();
  await shows(page, 'figs', 1);
});

test('the page fits a narrow screen, in light and dark', async (t) => {
  await emptyServer();
  for (const colorScheme of ['light', 'dark']) {
    const page = await open(await newContext(t, { colorScheme, viewport: { width: 390, height: 844 } }));
    await create(page, `${colorScheme} ${'long name '.repeat(5).trim()}`);
    await row(page, colorScheme).waitFor();
    const widths = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(widths[0] <= widths[1], `${widths[0]} px wide on ${widths[1]}`);
    const small = await page.locator('#list button').evaluateAll((buttons) => buttons.filter((button) => button.offsetHeight < 44).length);
    assert.equal(small, 0);
    if (process.env.SCREENSHOTS) await page.screenshot({ path: `${process.env.SCREENSHOTS}/counters-${colorScheme}.png` });
  }
});
