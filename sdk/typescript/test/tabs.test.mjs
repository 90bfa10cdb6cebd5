// Tabs that share one stream, in a browser of the test.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startBrowser } from './lib/browser.mjs';
import { startServer, version } from './lib/server.mjs';
import { answers, jwt, newClient, watch } from './lib/watch.mjs';

/** Tokens of one user: `token` always has one, `failing` as long as `fails` is not set. */
function newSource() {
  const token = () => jwt({ sub: 'ada' });
  const source = { fails: false, token };
  source.failing = () => {
    if (source.fails) throw new Error('not now');
    return token();
  };
  return source;
}

/** Sends each subscription of a query a value when it arrives. */
function answerAtOnce(server) {
  const put = (stream, { key, query }) => stream.value(query, 1, `first of ${query}`, 1, key);
  server.onStream = (stream) => {
    stream.hello();
    for (const subscription of stream.subscriptions.values()) put(stream, subscription);
    stream.onChange = ({ add }) => add.forEach((subscription) => put(stream, subscription));
  };
}

test('a tab with a query of its own keeps it, however late its lock is granted', async (t) => {
  const browser = startBrowser(t);
  const server = await startServer(t);
  answerAtOnce(server);
  const leader = watch(newClient(t, server), 'shared', {});
  await leader.next();
  // The lock of a new tab takes longer than its messages.
  const known = new Set();
  browser.locks.arrive = (name) => {
    if (known.has(name)) return Promise.resolve();
    known.add(name);
    return new Promise((resolve) => setTimeout(resolve, 100));
  };
  const followers = ['one', 'two', 'three'].map((query) => watch(newClient(t, server), query, {}));
  for (const follower of followers) await follower.next();
  const [stream] = server.streams;
  for (const query of ['one', 'two', 'three']) stream.value(query, 2, `next of ${query}`);
  assert.deepEqual(await Promise.all(followers.map((follower) => follower.next())), ['next of one', 'next of two', 'next of three']);
  assert.equal(server.streams.length, 1);
});

test('a tab that closes ends its subscriptions, and another one takes over from the leader', async (t) => {
  startBrowser(t);
  const server = await startServer(t);
  answerAtOnce(server);
  const first = newClient(t, server);
  await watch(first, 'first', {}).next();
  const second = newClient(t, server);
  const seen = watch(second, 'second', {});
  await seen.next();
  const third = newClient(t, server);
  await watch(third, 'third', {}).next();
  third.close();
  await server.until(() => !server.streams[0].keyOf('third'));
  first.close();
  await server.until(() => server.streams.length === 2);
  assert.deepEqual([...server.streams[1].subscriptions.values()].map(({ query }) => query), ['second']);
  assert.ok(server.streams[1].opening.body.subscriptions[0].have, 'it resumes');
  server.streams[1].value('second', 2, 'later');
  assert.equal(await seen.next(), 'later');
});

test('where the browser gives no locks, the tab has a stream of its own', async (t) => {
  const browser = startBrowser(t);
  const server = await startServer(t);
  answerAtOnce(server);
  let requests = 0;
  browser.locks.arrive = () => {
    requests += 1;
    if (requests > 100) return new Promise(() => {});
    return Promise.reject(new DOMException('The frame is sandboxed.', 'SecurityError'));
  };
  const [one, other] = [watch(newClient(t, server), 'one', {}), watch(newClient(t, server), 'other', {})];
  assert.deepEqual([await one.next(), await other.next()], ['first of one', 'first of other']);
  assert.deepEqual([server.streams.length, requests], [2, 2]);
});

test('where the browser gives no channel, the tab has a stream of its own', async (t) => {
  startBrowser(t);
  const server = await startServer(t);
  answerAtOnce(server);
  const { BroadcastChannel } = globalThis;
  t.after(() => (globalThis.BroadcastChannel = BroadcastChannel));
  globalThis.BroadcastChannel = class {
    constructor() {
      throw new DOMException('The operation is insecure.', 'SecurityError');
    }
  };
  assert.equal(await watch(newClient(t, server), 'one', {}).next(), 'first of one');
});

test('a leader without a token leaves the stream to a tab that has one', async (t) => {
  startBrowser(t);
  const server = await startServer(t);
  answerAtOnce(server);
  const source = newSource();
  const leader = watch(newClient(t, server, { token: source.failing }), 'one', {});
  await leader.next();
  const follower = watch(newClient(t, server, { token: source.token }), 'two', {});
  await follower.next();
  source.fails = true;
  server.streams[0].kill();
  await server.until(() => server.streams.length === 2 && server.streams[1].keyOf('one'));
  server.streams[1].value('one', 2, 'later');
  assert.equal(await leader.next(), 'later');
  assert.deepEqual([leader.errors, follower.errors], [[], []]);
});

test('a tab that has no token for one more query leaves the shared stream as it is', async (t) => {
  startBrowser(t);
  const server = await startServer(t);
  answerAtOnce(server);
  const source = newSource();
  const client = newClient(t, server, { token: source.failing });
  const leader = watch(client, 'one', {});
  await leader.next();
  const follower = watch(newClient(t, server, { token: source.token }), 'two', {});
  await follower.next();
  source.fails = true;
  assert.equal((await watch(client, 'three', {}).next()).code, 'token_failed');
  server.streams[0].value('two', 2, 'later');
  assert.equal(await follower.next(), 'later');
  assert.ok(server.streams[0].isOpen && server.streams.length === 1);
});

test('when no tab has a token, each one reports its own failure, and values follow when it passes', async (t) => {
  startBrowser(t);
  const server = await startServer(t);
  answerAtOnce(server);
  let fails = false;
  const tabs = [];
  for (const name of ['one', 'two']) {
    const token = () => {
      if (fails) throw new Error(`no token for ${name}`);
      return jwt({ sub: 'ada' });
    };
    tabs.push(watch(newClient(t, server, { token }), name, {}));
    await tabs.at(-1).next();
  }
  fails = true;
  server.streams[0].kill();
  for (const [tab, name] of [[tabs[0], 'one'], [tabs[1], 'two']]) {
    const { code, cause } = await tab.next();
    assert.deepEqual([code, cause.message], ['token_failed', `no token for ${name}`]);
  }
  fails = false;
  assert.deepEqual([await tabs[0].next(), await tabs[1].next()], ['first of one', 'first of two']);
  assert.deepEqual(tabs.map(({ errors }) => errors.length), [1, 1]);
});

test('a leader whose token is refused leaves the stream to a tab whose token works', async (t) => {
  startBrowser(t);
  const server = await startServer(t);
  answerAtOnce(server);
  const [old, other] = [1, 2].map((jti) => jwt({ sub: 'ada', jti }));
  const leader = watch(newClient(t, server, { token: () => old }), 'one', {});
  await leader.next();
  const follower = watch(newClient(t, server, { token: () => other }), 'two', {});
  await follower.next();
  server.refuse = ({ token }) => (token === old ? [401, { code: 'invalid_token' }] : undefined);
  server.streams[0].kill();
  await server.until(() => server.streams.length === 2 && server.streams[1].keyOf('one'));
  assert.equal(server.streams[1].opening.token, other);
  server.streams[1].value('one', 2, 'later');
  assert.equal(await leader.next(), 'later');
  assert.deepEqual([leader.errors, follower.errors], [[], []]);
});

test('a tab whose token is refused reports it at once if it is alone, and leaves the stream to the next tab', async (t) => {
  startBrowser(t);
  const server = await startServer(t);
  answerAtOnce(server);
  const [old, other] = [1, 2].map((jti) => jwt({ sub: 'ada', jti }));
  server.refuse = ({ token }) => (token === old ? [401, { code: 'invalid_token' }] : undefined);
  const first = watch(newClient(t, server, { token: () => old }), 'one', {});
  assert.equal((await first.next()).code, 'invalid_token');
  const second = watch(newClient(t, server, { token: () => other }), 'two', {});
  assert.deepEqual([await second.next(), await first.next()], ['first of two', 'first of one']);
  assert.deepEqual(server.streams.map(({ opening }) => opening.token), [other]);
  assert.deepEqual([first.errors.length, second.errors.length], [1, 0]);
});

test('when all tabs are without a token, they do not pass the lead around in a loop', async (t) => {
  startBrowser(t);
  const server = await startServer(t);
  answerAtOnce(server);
  let asked = 0;
  let fails = false;
  const token = () => {
    asked += 1;
    if (fails) throw new Error('not now');
    return jwt({ sub: 'ada' });
  };
  const tabs = ['one', 'two', 'three'].map((query) => watch(newClient(t, server, { token }), query, {}));
  for (const tab of tabs) await tab.next();
  fails = true;
  server.streams.at(-1).kill();
  asked = 0;
  const started = performance.now();
  // Each tab once, and then the first one again.
  while (asked < 4) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.ok(performance.now() - started > 500, 'it waits in between');
  fails = false;
  const streams = server.streams.length;
  await server.until(() => server.streams.length > streams && tabs.length === server.streams.at(-1).subscriptions.size);
});

test('a tab that has no token at first joins the shared stream when it has one', async (t) => {
  startBrowser(t);
  const server = await startServer(t);
  answerAtOnce(server);
  const token = () => jwt({ sub: 'ada' });
  await watch(newClient(t, server, { token }), 'one', {}).next();
  const source = {
    token: () => {
      throw new Error('not now');
    },
  };
  const late = newClient(t, server, { token: () => source.token() });
  const statuses = [];
  late.onStatus((status) => statuses.push(status));
  const seen = watch(late, 'two', {});
  assert.equal((await seen.next()).code, 'token_failed');
  source.token = token;
  assert.equal(await seen.next(), 'first of two');
  assert.equal(server.streams.length, 1);
  assert.equal(seen.errors.length, 1);
  assert.deepEqual(statuses, ['idle', 'connecting', 'waiting', 'connecting', 'live']);
});

test('a sign-in ends the pause of a tab that has no token', async (t) => {
  startBrowser(t);
  const server = await startServer(t);
  answerAtOnce(server);
  let asked = 0;
  let fails = true;
  const token = () => {
    asked += 1;
    if (fails) throw new Error('login_required');
    return jwt({ sub: 'ada' });
  };
  const client = newClient(t, server, { token });
  watch(client, 'one', {});
  // The pause after the third failure is half a second at least.
  while (asked < 3) await new Promise((resolve) => setTimeout(resolve, 5));
  fails = false;
  const started = performance.now();
  await client.signedIn();
  await server.until(() => server.streams.length === 1);
  assert.ok(performance.now() - started < 400, `${performance.now() - started} ms`);
});

test('a tab that has no token is idle when nothing is subscribed to any more', async (t) => {
  startBrowser(t);
  const token = () => {
    throw new Error('login_required');
  };
  const client = newClient(t, { url: 'http://127.0.0.1:1' }, { token });
  const seen = watch(client, 'one', {});
  assert.equal((await seen.next()).code, 'token_failed');
  seen.stop();
  await new Promise((resolve) => client.onStatus((status) => status === 'idle' && resolve()));
  assert.equal(seen.errors.length, 1);
});

test('a leader that renews a refused token is not silent, and keeps the lead', async (t) => {
  startBrowser(t);
  const server = await startServer(t);
  answerAtOnce(server);
  const [old, renewed, other] = [1, 2, 3].map((jti) => jwt({ sub: 'ada', jti }));
  // The renewal takes longer than a stream may be silent.
  const slow = (refused) => (refused ? new Promise((resolve) => setTimeout(resolve, 500, renewed)) : old);
  const leader = newClient(t, server, { token: slow, timing: { silence: 200 } });
  const seen = watch(leader, 'one', {});
  await seen.next();
  const follower = newClient(t, server, { token: () => other });
  const followed = watch(follower, 'two', {});
  await followed.next();
  const statuses = [leader, follower].map((client) => {
    const list = [];
    client.onStatus((status) => list.push(status));
    return list;
  });
  server.refuse = ({ token }) => (token === old ? [401, { code: 'invalid_token' }] : undefined);
  server.streams[0].kill();
  await server.until(() => server.streams.length === 2 && server.streams[1].keyOf('two'));
  for (const query of ['one', 'two']) server.streams[1].value(query, 2, 'later');
  assert.deepEqual([await seen.next(), await followed.next()], ['later', 'later']);
  assert.deepEqual(server.streams.map(({ opening }) => opening.token), [old, renewed]);
  assert.deepEqual(statuses, Array(2).fill(['live', 'waiting', 'connecting', 'live']));
});

test('a leader answers its followers while it renews a token, and they do not take over', async (t) => {
  startBrowser(t);
  let heard = () => {};
  const { BroadcastChannel, setInterval } = globalThis;
  t.after(() => Object.assign(globalThis, { BroadcastChannel, setInterval }));
  const intervals = [];
  globalThis.setInterval = (run) => intervals.push(run);
  globalThis.BroadcastChannel = class extends BroadcastChannel {
    constructor(name) {
      super(name);
      this.addEventListener('message', ({ data }) => data.kind === 'status' && heard());
    }
  };
  const server = await startServer(t);
  answerAtOnce(server);
  const [old, renewed, other] = [1, 2, 3].map((jti) => jwt({ sub: 'ada', jti }));
  let renew;
  const renewing = new Promise((asked) => (renew = () => new Promise(asked)));
  await watch(newClient(t, server, { token: (refused) => (refused ? renew() : old) }), 'one', {}).next();
  await watch(newClient(t, server, { token: () => other }), 'two', {}).next();
  server.refuse = ({ token }) => (token === old ? [401, { code: 'invalid_token' }] : undefined);
  server.streams[0].kill();
  const release = await renewing;
  // A follower takes over when three of its questions have no answer.
  for (let n = 0; n < 4; n += 1) {
    const answer = new Promise((resolve) => (heard = resolve));
    intervals.forEach((run) => run());
    await answer;
  }
  release(renewed);
  await server.until(() => server.streams.length === 2);
  assert.equal(server.streams[1].opening.token, renewed);
});

test('a tab that the user looks at hurries the leader', async (t) => {
  const browser = startBrowser(t);
  const server = await startServer(t);
  answerAtOnce(server);
  await watch(newClient(t, server), 'one', {}).next();
  browser.open();
  await watch(newClient(t, server), 'two', {}).next();
  const now = Date.now;
  t.after(() => (Date.now = now));
  Date.now = () => now() + 60_000;
  browser.look();
  await server.until(() => server.streams.length === 2);
});

test('a leader sends states only to tabs that want them', async (t) => {
  startBrowser(t);
  const server = await startServer(t);
  answerAtOnce(server);
  const kinds = [];
  const post = BroadcastChannel.prototype.postMessage;
  t.after(() => (BroadcastChannel.prototype.postMessage = post));
  BroadcastChannel.prototype.postMessage = function (message) {
    kinds.push(`${message.kind} ${message.id ?? ''}`);
    post.call(this, message);
  };
  await watch(newClient(t, server), 'one', {}).next();
  assert.ok(!kinds.includes('state one {}'));
  await watch(newClient(t, server), 'two', {}).next();
  server.streams[0].value('one', 2, 'later');
  await watch(newClient(t, server), 'one', {}).next();
  assert.deepEqual(kinds.filter((kind) => kind.startsWith('state')), ['state two {}', 'state one {}']);
});

test('a tab that has written something is not shown what another tab holds from before', async (t) => {
  startBrowser(t);
  const server = await startServer(t);
  answerAtOnce(server);
  const leader = watch(newClient(t, server), 'rooms', {});
  assert.equal(await leader.next(), 'first of rooms');
  server.rpc.create_room = answers({ id: 1 }, 12);
  const second = newClient(t, server);
  await second.call('create_room', {});
  const [stream] = server.streams;
  stream.onChange = () => {};
  const rooms = watch(second, 'rooms', {});
  await server.until(() => stream.changes.length > 0);
  assert.match(stream.changes.at(-1).body.add[0].have, new RegExp(`^${version(12)}/`));
  stream.value('rooms', 12, 'with the new one');
  assert.equal(await rooms.next(), 'with the new one');
  assert.equal(await leader.next(), 'with the new one');
});

test('a tab that waits for a newer state learns that it may not have it', async (t) => {
  startBrowser(t);
  const server = await startServer(t);
  answerAtOnce(server);
  const leader = watch(newClient(t, server), 'rooms', {});
  assert.equal(await leader.next(), 'first of rooms');
  server.rpc.leave = answers({}, 12);
  const second = newClient(t, server);
  await second.call('leave', {});
  const [stream] = server.streams;
  stream.onChange = () => {};
  const rooms = watch(second, 'rooms', {});
  await server.until(() => stream.changes.length > 0);
  // A refusal is of no version.
  stream.send('error', undefined, 'rooms', { problem: { status: 403, code: 'forbidden' } });
  for (const listener of [rooms, leader]) assert.equal((await listener.next()).code, 'forbidden');
});
