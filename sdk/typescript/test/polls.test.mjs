// Long polls, and connections that are dead or were asleep.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startBrowser } from './lib/browser.mjs';
import { startServer, version } from './lib/server.mjs';
import { answers, newClient, watch } from './lib/watch.mjs';

const subscriptionsOf = ({ query }) => query.getAll('sub').map((text) => JSON.parse(text));

function send(response, event, number, key, data) {
  const id = number === undefined ? '' : `id: ${version(number)}\n`;
  response.end(`event: ${event}\n${id}data: ${JSON.stringify({ keys: [key], ...data })}\n\n`);
}

const value = (response, { key }, number) => send(response, 'value', number, key, { digest: `d${number}`, value: number });

/** A server whose streams end at once, so that clients poll. */
async function polled(t) {
  const server = await startServer(t);
  server.onStream = (stream) => (stream.hello(), stream.end());
  return server;
}

test('a subscription that the server refuses does not hold up the polls of others', async (t) => {
  const server = await polled(t);
  let polls = 0;
  server.onPoll = (request, response) => {
    polls += 1;
    const [good, bad] = ['good', 'bad'].map((name) => subscriptionsOf(request).find(({ query }) => query === name));
    if (bad) send(response, 'error', undefined, bad.key, { problem: { status: 400, code: 'invalid_arguments' } });
    else value(response, good, polls);
  };
  const client = newClient(t, server);
  const [bad, good] = [watch(client, 'bad', {}), watch(client, 'good', {})];
  assert.equal((await bad.next()).code, 'invalid_arguments');
  for (let n = 2; n <= 10; n += 1) assert.equal(await good.next(), n);
  assert.equal(bad.errors.length, 1);
});

test('a query that changes all the time is not polled without a pause, and a new subscription does not wait', async (t) => {
  const server = await polled(t);
  const at = [];
  server.onPoll = (request, response) => {
    at.push(performance.now());
    const missing = subscriptionsOf(request).find(({ have }) => have === undefined);
    value(response, missing ?? subscriptionsOf(request)[0], at.length);
  };
  const client = newClient(t, server);
  const busy = watch(client, 'busy', {});
  for (let n = 1; n <= 4; n += 1) assert.equal(await busy.next(), n);
  const gaps = at.slice(1).map((time, n) => time - at[n]);
  assert.ok(gaps.every((gap) => gap > 200), gaps.join());
  const other = watch(client, 'other', {});
  await other.next();
  assert.ok(performance.now() - at.at(-2) < 200, 'the pause ends for it');
});

test('where something else than a stream is answered, polls deliver', async (t) => {
  const server = await startServer(t);
  server.isCaught = ({ path }) => path === '/live';
  server.onPoll = (request, response) => value(response, subscriptionsOf(request)[0], 1);
  assert.equal(await watch(newClient(t, server), 'q', {}).next(), 1);
});

test('a page of the network in between is no stream and no poll', async (t) => {
  for (const [server, path, good] of [
    [await startServer(t), '/live', 'live'],
    [await polled(t), '/live/poll', 'polling'],
  ]) {
    server.onPoll = (request, response) => value(response, subscriptionsOf(request)[0], 1);
    const seen = [];
    let caught = 0;
    server.isCaught = (request) => request.path === path && caught++ === 0;
    const client = newClient(t, server);
    client.onStatus((status) => seen.push(status));
    const watched = watch(client, 'q', {});
    await server.until(() => caught > 1);
    assert.ok(!seen.includes(good), `no connection without an answer of the server: ${seen.join()}`);
    assert.deepEqual(watched.errors, []);
    client.close();
  }
});

test('a poll that is refused for one subscription is sent for the others', async (t) => {
  const server = await polled(t);
  server.onPoll = (request, response) => {
    const missing = subscriptionsOf(request).find(({ have }) => !have || have.endsWith('/-'));
    if (missing) value(response, missing, 1);
  };
  const isBad = ({ query }) => query === 'bad';
  server.refuse = (request) =>
    request.path === '/live/poll' && subscriptionsOf(request).some(isBad) ? [400, { code: 'invalid_arguments' }] : undefined;
  const client = newClient(t, server);
  const [bad, ...good] = ['bad', 'one', 'two', 'three'].map((query) => watch(client, query, {}));
  for (const seen of good) assert.equal(await seen.next(), 1);
  assert.equal((await bad.next()).code, 'invalid_arguments');
  assert.deepEqual(good.flatMap(({ errors }) => errors), []);
});

test('a change without effect is settled while the client polls', async (t) => {
  const server = await polled(t);
  server.rpc.nothing = answers(null, 2);
  // As the server does: it holds a poll whose answer is what the client has.
  server.onPoll = (request, response) => {
    const [{ key, have }] = subscriptionsOf(request);
    const number = have?.startsWith(version(2)) ? 2 : 1;
    if (!have?.endsWith('/d7')) send(response, 'value', number, key, { digest: 'd7', value: 7 });
  };
  const client = newClient(t, server);
  const live = watch(client, 'q', {});
  assert.equal(await live.next(), 7);
  await client.call('nothing', {}, { optimistic: (local) => local.update('q', {}, (value) => value + 1) });
  assert.deepEqual([await live.next(), await live.next()], [8, 7]);
});

test('a poll for a list whose row keys are other numbers here is sent again for the whole list, once', async (t) => {
  const server = await polled(t);
  const asked = [];
  server.onPoll = (request, response) => {
    const [{ key, have, rows }] = subscriptionsOf(request);
    asked.push(`${have?.slice(-3)} ${rows}`);
    const change = { base: version(1), by: 'id', digest: 'd2', set: [['1.0', { id: 1, n: 2 }]], gone: [] };
    if (!have) send(response, 'value', 1, key, { digest: 'd1', value: [{ id: 1, n: 1 }] });
    else if (have.endsWith('/-')) send(response, 'value', 2, key, { digest: 'd2', value: [{ id: 1, n: 3 }] });
    else if (have.endsWith('/d1')) send(response, 'rows', 2, key, change);
  };
  const list = watch(newClient(t, server), 'list', {});
  assert.deepEqual([await list.next(), await list.next()], [[{ id: 1, n: 1 }], [{ id: 1, n: 3 }]]);
  await server.until(() => asked.at(-1).startsWith('/d2'));
  assert.equal(asked.at(-1), '/d2 false');
  assert.ok(asked.length <= 5, `${asked}`);
});

test('a poll without an answer is sent again', async (t) => {
  const server = await polled(t);
  let polls = 0;
  server.onPoll = (request, response) => {
    polls += 1;
    if (polls > 1) value(response, subscriptionsOf(request)[0], polls);
  };
  const live = watch(newClient(t, server, { timing: { heartbeat: 40 } }), 'q', {});
  assert.equal(await live.next(), 2);
});

test('after a poll that succeeded the pauses begin small again', async (t) => {
  const server = await polled(t);
  let polls = 0;
  server.onPoll = (request, response) => {
    polls += 1;
    if (polls % 2) response.destroy();
    else value(response, subscriptionsOf(request)[0], polls);
  };
  const live = watch(newClient(t, server), 'q', {});
  await live.next();
  const started = performance.now();
  for (let n = 0; n < 3; n += 1) await live.next();
  assert.ok(performance.now() - started < 3_000, 'three pauses of 250 ms at most');
});

test('a clock that is set back does not prolong polling', async (t) => {
  const server = await polled(t);
  const now = Date.now;
  t.after(() => (Date.now = now));
  server.onPoll = (request, response) => {
    Date.now = () => now() - 86_400_000;
    server.onStream = (stream) => stream.hello();
    setTimeout(() => value(response, subscriptionsOf(request)[0], server.requests.length), 20);
  };
  watch(newClient(t, server, { timing: { polling: 200 } }), 'q', {});
  await server.until(() => server.streams.length === 4);
});

test('a stream that is overdue is opened again as soon as the user looks', async (t) => {
  const browser = startBrowser(t);
  const server = await startServer(t);
  const now = Date.now;
  t.after(() => (Date.now = now));
  const live = watch(newClient(t, server, { share: false }), 'q', {});
  await server.until(() => server.streams.length === 1);
  server.streams[0].value('q', 1, 1);
  await live.next();
  browser.look();
  // The device has slept.
  Date.now = () => now() + 60_000;
  browser.look();
  await server.until(() => server.streams.length === 2);
  assert.equal(server.streams[1].opening.body.subscriptions[0].have, `${version(1)}/d1`);
});

test('a client that polls comes back after the pause of a bye, also one with an answer', async (t) => {
  const server = await polled(t);
  const asked = [];
  server.onPoll = (request, response) => {
    asked.push(performance.now());
    if (asked.length > 1) return;
    response.write(`event: same\nid: ${version(1)}\ndata: {"keys":["x"]}\n\n`);
    // The server has held it for a while.
    setTimeout(() => response.end('event: bye\nretry: 1500\ndata: {}\n\n'), 1100);
  };
  watch(newClient(t, server), 'q', {});
  await server.until(() => asked.length === 2);
  assert.ok(asked[1] - asked[0] > 1100 + 700, `${asked[1] - asked[0]} ms`);
});

test('changes of a client that polls do not end the pause that the server asked for', async (t) => {
  const server = await polled(t);
  let polls = 0;
  server.refuse = ({ path }) => {
    if (!path.startsWith('/live/poll')) return undefined;
    polls += 1;
    return [503, { code: 'overloaded' }, { 'Retry-After': '60' }];
  };
  const client = newClient(t, server);
  const states = [];
  let wake = () => {};
  client.onStatus((status) => (states.push(status), wake()));
  watch(client, 'first', {});
  await server.until(() => polls === 1);
  while (states.at(-1) !== 'waiting') await new Promise((resolve) => (wake = resolve));
  server.rpc.anything = answers(1, 1);
  for (let n = 0; n < 10; n += 1) {
    watch(client, 'later', { n });
    await client.call('anything', {});
  }
  assert.equal(polls, 1);
  assert.ok(!states.includes('polling'), `no poll was answered: ${states}`);
});
