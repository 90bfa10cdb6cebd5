// Streams for clients that are not ours. Live authorization state: `curl -N`, and the copies that docs/api.md shows, which
// are run as they are on the page. Live queries: `curl -N`, `fetch`, and a native EventSource with a ticket.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { newPerson, startBrowser } from './lib/browser.mjs';
import { getJson } from './lib/client.mjs';
import { startCounters } from './lib/examples.mjs';
import { ROOT, startDemo } from './lib/demo.mjs';
import { signInTerminal } from './lib/terminal.mjs';

let demo, browser, terminal, folder, page;
before(async () => {
  demo = await startDemo();
  browser = await startBrowser();
  terminal = await signInTerminal(demo, await newPerson(browser), demo.organization.admin);
  folder = await mkdtemp(join(tmpdir(), 'sarsen-live-'));
  page = await readFile(join(ROOT, 'docs/api.md'), 'utf8');
});
after(async () => {
  await terminal?.leave();
  await browser?.close();
  await demo?.stop();
  if (folder) await rm(folder, { recursive: true, force: true });
});

const setPlan = (plan) =>
  terminal.run('subscription', 'change', '--org', demo.organization.slug, '--user', demo.user('ada').email, '--plan', plan);

/** The id of ada, from the state of the service. */
async function ada() {
  const { body } = await getJson(`${demo.issuer}/api/service/state`, demo.api_key);
  return body.users.find(({ email }) => email === demo.user('ada').email).id;
}

/** A program whose lines are awaited one after another. */
function start(command, args) {
  const env = { ...process.env, OIDC_ISSUER: demo.issuer, SARSEN_KEY: demo.api_key };
  const child = spawn(command, args, { env, cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const until = async (wanted) => {
    for (;;) {
      const { value, done } = await lines.next();
      assert.ok(!done, `${command} ended before ${wanted}`);
      if (wanted.test(value)) return value;
    }
  };
  const ended = new Promise((resolve) => child.once('exit', resolve));
  return { until, stop: () => (child.kill('SIGKILL'), ended) };
}

test('curl -N shows a changed plan while the stream is open', { timeout: 120_000 }, async () => {
  const curl = start('curl', ['-sSN', '-H', `Authorization: Bearer ${demo.api_key}`, `${demo.issuer}/api/live`]);
  await curl.until(/^id: /);
  await setPlan('starter');
  await curl.until(/^event: subscription\.changed$/);
  assert.match(await curl.until(/^data: /), /"plan":"starter"/);
  await setPlan('pro');
  assert.match(await curl.until(/^data: /), /"plan":"pro"/);
  await curl.stop();
});

/** In the page: what `fetch` and an EventSource read of the same live query, as `seen`. */
async function readTwice({ token, wanted }) {
  window.seen = { fetch: [], source: [] };
  const headers = { authorization: `Bearer ${token}` };
  const { ticket } = await (await fetch('/live/ticket', { method: 'POST', headers })).json();
  const query = new URLSearchParams({ ticket, sub: JSON.stringify(wanted) });
  new EventSource(`/live?${query}`).addEventListener('value', ({ data }) => window.seen.source.push(JSON.parse(data).value.value));
  const body = JSON.stringify({ subscriptions: [wanted] });
  const reader = (await fetch('/live', { method: 'POST', headers, body })).body.pipeThrough(new TextDecoderStream()).getReader();
  const read = async () => {
    for (let text = ''; ; ) {
      const { value, done } = await reader.read();
      if (done) return;
      const events = (text += value).split('\n\n');
      text = events.pop();
      for (const event of events.filter((event) => event.startsWith('event: value'))) {
        window.seen.fetch.push(JSON.parse(event.split('data: ')[1]).value.value);
      }
    }
  };
  read();
}

test('curl -N, fetch and an EventSource with a ticket show a live query', { timeout: 120_000 }, async (t) => {
  const counters = await startCounters();
  t.after(() => counters.stop());
  const call = async (name, args, token) => {
    const init = { method: 'POST', body: JSON.stringify(args), headers: { 'content-type': 'application/json' } };
    return (await getJson(`${counters.url}/rpc/${name}`, token, init)).body.value;
  };
  const { token } = await call('register', { name: 'Ada' });
  const { id } = await call('create_counter', { name: 'apples' }, token);
  const wanted = { key: 'a', query: 'get_counter', args: { id } };
  const body = JSON.stringify({ subscriptions: [wanted] });
  const curl = start('curl', ['-sSN', '-H', `Authorization: Bearer ${token}`, '-d', body, `${counters.url}/live`]);
  const page = await newPerson(browser);
  await page.goto(counters.url);
  await page.evaluate(readTwice, { token, wanted });
  for (let value = 0; value < 3; value += 1) {
    if (value > 0) await call('increment', { id }, token);
    await curl.until(new RegExp(`^data: .*"value":${value}}`));
    await page.waitForFunction((value) => Object.values(window.seen).every((values) => values.includes(value)), value);
  }
  assert.deepEqual(await page.evaluate(() => window.seen), { fetch: [0, 1, 2], source: [0, 1, 2] });
  await curl.stop();
});

/** The block of the page after the line that names its file. */
function block(file) {
  const after = page.split(`\`${file}\`:\n\n`)[1];
  assert.ok(after, `docs/api.md has ${file}`);
  return after.slice(after.indexOf('\n') + 1, after.indexOf('\n```'));
}

/** A program that prints what the copy answers whenever that changes. */
const WATCHERS = {
  'copy.mjs': {
    command: process.execPath,
    text: `import { allows, run } from './copy.mjs';
let shown;
setInterval(() => {
  let now;
  try { now = String(allows(process.argv[2], 'history')); } catch { now = 'stale'; }
  if (now !== shown) console.log(shown = now);
}, 20);
run();`,
    file: 'watch.mjs',
  },
  'copy_of_state.py': {
    command: 'python3',
    text: `import sys, threading, time
import copy_of_state
threading.Thread(target=copy_of_state.run, daemon=True).start()
shown = None
while True:
    try:
        now = str(copy_of_state.allows(sys.argv[1], "history")).lower()
    except RuntimeError:
        now = "stale"
    if now != shown:
        shown = now
        print(now, flush=True)
    time.sleep(0.02)`,
    file: 'watch.py',
  },
};

test('the copies of docs/api.md follow a change and refuse when they are stale', { timeout: 180_000 }, async (t) => {
  const user = await ada();
  const copies = [];
  for (const [file, { command, text, file: watcher }] of Object.entries(WATCHERS)) {
    await writeFile(join(folder, file), block(file));
    await writeFile(join(folder, watcher), text);
    copies.push(start(command, [watcher, user]));
  }
  t.after(() => Promise.all(copies.map((copy) => copy.stop())));
  const answer = (wanted) => Promise.all(copies.map((copy) => copy.until(wanted)));
  await answer(/^stale$/);
  await answer(/^true$/);
  await setPlan('starter');
  await answer(/^false$/);
  await setPlan('pro');
  await answer(/^true$/);
  // A server that hangs keeps the connection open and sends nothing.
  demo.pause();
  try {
    await answer(/^stale$/);
  } finally {
    demo.resume();
  }
  await answer(/^true$/);
});
