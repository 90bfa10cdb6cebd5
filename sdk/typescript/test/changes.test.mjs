// Changes of a running stream that the server refuses, or does not answer.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startServer } from './lib/server.mjs';
import { newClient, watch } from './lib/watch.mjs';

const isChange = (request) => /^\/live\/s\d/.test(request.path);

/** A server whose streams have `most` subscriptions at most. */
async function limited(t, most) {
  const server = await startServer(t);
  server.refuse = ({ path, body }) => {
    const present = path === '/live' ? 0 : server.streams.at(-1).subscriptions.size - body.remove.length;
    return present + (body.add ?? body.subscriptions).length > most ? [429, { code: 'limit_reached' }] : undefined;
  };
  return server;
}

test('a subscription for which there is no room leaves the others alone', async (t) => {
  const server = await limited(t, 2);
  const client = newClient(t, server);
  const [one, two] = [watch(client, 'one', {}), watch(client, 'two', {})];
  await server.until(() => server.streams.length === 1);
  const three = watch(client, 'three', {});
  assert.equal((await three.next()).code, 'limit_reached');
  server.streams[0].value('one', 1, 1);
  assert.equal(await one.next(), 1);
  assert.deepEqual([one.errors, two.errors, server.streams.length], [[], [], 1]);
  // It gets the first place that is free.
  two.stop();
  await server.until(() => server.streams[0].keyOf('three'));
  server.streams[0].value('three', 2, 3);
  let last;
  while (last !== 3) last = await three.next();
  assert.ok(server.streams[0].isOpen && server.streams.length === 1);
});

test('of more subscriptions than a stream may have, as many as fit are served', async (t) => {
  const server = await limited(t, 20);
  const client = newClient(t, server);
  const all = Array.from({ length: 30 }, (_, n) => watch(client, `q${n}`, {}));
  const refused = await Promise.all(all.slice(20).map((seen) => seen.next()));
  assert.deepEqual(new Set(refused.map(({ code }) => code)), new Set(['limit_reached']));
  assert.equal(server.streams.at(-1).subscriptions.size, 20);
  assert.deepEqual(all.slice(0, 20).flatMap(({ errors }) => errors), []);
  assert.ok(server.streams.at(-1).isOpen && server.requests.length < 15, `${server.requests.length} requests`);
});

test('a subscription that the server cannot read leaves the others alone', async (t) => {
  const server = await startServer(t);
  const client = newClient(t, server);
  watch(client, 'one', {});
  await server.until(() => server.streams.length === 1);
  const isBad = ({ query }) => query === 'bad';
  server.refuse = ({ body }) => ((body.add ?? body.subscriptions).some(isBad) ? [400, { code: 'invalid_arguments' }] : undefined);
  const [good, bad] = [watch(client, 'good', {}), watch(client, 'bad', {})];
  assert.equal((await bad.next()).code, 'invalid_arguments');
  await server.until(() => server.streams[0].keyOf('good'));
  assert.deepEqual([good.errors.length, server.streams.length], [0, 1]);
});

/** Refuses requests with the query `bad`, and answers each accepted subscription at once. */
async function withBad(t) {
  const server = await startServer(t);
  const put = (stream, { key, query }) => stream.value(query, 1, `of ${query}`, 1, key);
  server.onStream = (stream) => {
    stream.hello();
    for (const subscription of stream.subscriptions.values()) put(stream, subscription);
    stream.onChange = ({ add }) => add.forEach((subscription) => put(stream, subscription));
  };
  const isBad = ({ query }) => query === 'bad';
  server.refuse = ({ body }) => ((body.add ?? body.subscriptions).some(isBad) ? [400, { code: 'invalid_arguments' }] : undefined);
  return server;
}

test('subscriptions that the server refuses at the opening do not keep it from serving a later one', async (t) => {
  const server = await withBad(t);
  const client = newClient(t, server);
  const bad = Array.from({ length: 9 }, (_, n) => watch(client, 'bad', { n }));
  const good = watch(client, 'good', {});
  assert.equal(await good.next(), 'of good');
  for (const seen of bad) assert.equal((await seen.next()).code, 'invalid_arguments');
  assert.ok(server.requests.length < 20, `${server.requests.length} requests`);
});

test('where changes reach another instance, a subscription that is refused is found at the opening', async (t) => {
  const server = await withBad(t);
  const { refuse } = server;
  server.refuse = (request) => (isChange(request) ? [409, { code: 'stream_elsewhere' }] : refuse(request));
  const client = newClient(t, server);
  const [first, bad, last] = ['first', 'bad', 'last'].map((query) => watch(client, query, {}));
  assert.deepEqual([await first.next(), (await bad.next()).code, await last.next()], ['of first', 'invalid_arguments', 'of last']);
  assert.ok(server.requests.length < 12, `${server.requests.length} requests`);
});

test('after a refused subscription the others are added in few requests', async (t) => {
  const server = await withBad(t);
  const client = newClient(t, server);
  await watch(client, 'one', {}).next();
  watch(client, 'bad', {});
  for (let n = 0; n < 100; n += 1) watch(client, `q${n}`, {});
  await server.until(() => server.streams[0].subscriptions.size === 101);
  assert.ok(server.requests.length < 20, `${server.requests.length} requests`);
});

test('a client whose subscriptions are all refused is waiting, and not idle', async (t) => {
  const server = await withBad(t);
  const client = newClient(t, server);
  const statuses = [];
  client.onStatus((status) => statuses.push(status));
  const bad = watch(client, 'bad', {});
  await bad.next();
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(statuses.at(-1), 'waiting');
  bad.stop();
  const idle = new Promise((resolve) => client.onStatus((status) => status === 'idle' && resolve()));
  await idle;
});

test('the place that becomes free is for a subscription that found no room', async (t) => {
  const server = await startServer(t);
  server.refuse = ({ path, body }) => {
    const added = body.add ?? body.subscriptions;
    const present = path === '/live' ? 0 : server.streams.at(-1).subscriptions.size - body.remove.length;
    if (added.some(({ query }) => query === 'bad')) return [400, { code: 'invalid_arguments' }];
    return present + added.length > 2 ? [429, { code: 'limit_reached' }] : undefined;
  };
  const client = newClient(t, server);
  const [one] = ['one', 'two'].map((query) => watch(client, query, {}));
  await server.until(() => server.streams.length === 1);
  await watch(client, 'bad', {}).next();
  await watch(client, 'late', {}).next();
  const before = server.requests.length;
  one.stop();
  await server.until(() => server.streams[0].keyOf('late'));
  const bad = server.requests.slice(before).filter(({ body }) => body.add.some(({ query }) => query === 'bad'));
  assert.equal(bad.length, 0);
});

test('a change that fails is sent again on the same stream, and takes later ones along', async (t) => {
  const server = await startServer(t);
  const client = newClient(t, server);
  watch(client, 'first', {});
  await server.until(() => server.streams.length === 1);
  let refusals = 0;
  server.refuse = (request) => (isChange(request) && refusals++ < 1 ? [503, { code: 'overloaded' }, { 'Retry-After': '0' }] : undefined);
  watch(client, 'second', {});
  await server.until(() => refusals === 1);
  for (let n = 0; n < 20; n += 1) {
    watch(client, 'later', { n });
    await new Promise((resolve) => setImmediate(resolve));
  }
  await server.until(() => server.streams[0].subscriptions.size === 22);
  assert.ok(server.streams[0].isOpen && server.streams.length === 1);
  assert.ok(refusals <= 3, `${refusals} changes`);
});

test('a token source that fails once does not end the stream', async (t) => {
  const server = await startServer(t);
  let failures = 0;
  const token = () => {
    if (failures > 0 && failures-- > 0) throw new Error('not now');
    return 'token';
  };
  const client = newClient(t, server, { token });
  const one = watch(client, 'one', {});
  await server.until(() => server.streams.length === 1);
  failures = 1;
  const two = watch(client, 'two', {});
  assert.equal((await two.next()).code, 'token_failed');
  await server.until(() => server.streams[0].keyOf('two'));
  assert.ok(server.streams[0].isOpen && server.streams.length === 1);
  assert.deepEqual(one.errors, [], 'nothing happened to it');
});

test('a change without an answer is sent again', async (t) => {
  const server = await startServer(t);
  let lost = 0;
  const losing = (url, init) => {
    if (!isChange({ path: new URL(url).pathname }) || lost > 0) return fetch(url, init);
    lost += 1;
    return new Promise((_, reject) => init.signal.addEventListener('abort', () => reject(init.signal.reason)));
  };
  const client = newClient(t, server, { fetch: losing, timing: { silence: 300 } });
  watch(client, 'one', {});
  await server.until(() => server.streams.length === 1);
  watch(client, 'two', {});
  await server.until(() => server.streams[0].keyOf('two'));
  assert.deepEqual([lost, server.streams.length, server.streams[0].isOpen], [1, 1, true]);
});
