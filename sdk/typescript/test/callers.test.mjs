// Nothing of one user is shown to another, and nothing that one asked for is done as another.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startBrowser } from './lib/browser.mjs';
import { startServer, version } from './lib/server.mjs';
import { answers, jwt, newClient, watch } from './lib/watch.mjs';

const userOf = ({ token }) => JSON.parse(Buffer.from(token.split('.')[1], 'base64url')).sub;

/** A client that watches `mine` and holds the value of ada. `token` may be changed. */
async function withAda(t, options = {}) {
  const server = await startServer(t);
  server.onStream = (stream) => {
    stream.hello();
    stream.value('mine', 1, `of ${userOf(stream.opening)}`);
  };
  const source = { token: () => jwt({ sub: 'ada' }) };
  const client = newClient(t, server, { token: (refused) => source.token(refused), ...options });
  const mine = watch(client, 'mine', {});
  assert.equal(await mine.next(), 'of ada');
  return { server, client, mine, source };
}

test('a sign-in does not wait for a renewal for the user before', async (t) => {
  const { server, client, mine, source } = await withAda(t);
  const renewed = new Promise((resolve) => {
    source.token = (refused) => (refused ? new Promise((release) => resolve(release)) : jwt({ sub: 'ada' }));
  });
  server.refuse = ({ path }) => (path === '/rpc/x' ? [401, { code: 'invalid_token' }] : undefined);
  const call = client.call('x', {}).catch((error) => error);
  const release = await renewed;
  source.token = () => jwt({ sub: 'bob' });
  await client.signedIn();
  assert.equal((await mine.next()).code, 'caller_changed');
  assert.equal(await mine.next(), 'of bob');
  release(jwt({ sub: 'ada', jti: 2 }));
  assert.equal((await call).status, 401);
  assert.deepEqual(server.streams.map(({ isOpen }) => isOpen), [false, true]);
  assert.equal(server.requests.filter(({ path }) => path === '/rpc/x').length, 1, 'what ada asked for is not done as bob');
});

test('a slow token of the user before is void after a sign-in, and so is what waits for it', async (t) => {
  const { server, client, mine, source } = await withAda(t);
  const asked = new Promise((resolve) => (source.token = () => new Promise((release) => resolve(release))));
  const call = client.call('x', {}).catch((error) => error);
  const release = await asked;
  source.token = () => jwt({ sub: 'bob' });
  await client.signedIn();
  release(jwt({ sub: 'ada' }));
  assert.equal((await call).code, 'caller_changed');
  assert.deepEqual([(await mine.next()).code, await mine.next()], ['caller_changed', 'of bob']);
  assert.deepEqual(server.requests.map(userOf), ['ada', 'bob']);
});

test('when a problem has passed the value is delivered again, though it is the same', async (t) => {
  const { server, mine, source } = await withAda(t);
  server.onStream = (stream) => (stream.hello(), stream.send('same', version(1), 'mine', {}));
  const { token } = source;
  source.token = () => {
    throw new Error('not now');
  };
  server.streams[0].kill();
  assert.equal((await mine.next()).code, 'token_failed');
  source.token = token;
  assert.equal(await mine.next(), 'of ada');
});

test('a sign-in ends the pause after a token that failed', async (t) => {
  const server = await startServer(t);
  let asked = 0;
  let fails = true;
  const token = () => {
    asked += 1;
    if (fails) throw new Error('login_required');
    return jwt({ sub: 'ada' });
  };
  const client = newClient(t, server, { token });
  watch(client, 'mine', {});
  // The pause after the third failure is half a second at least.
  while (asked < 3) await new Promise((resolve) => setTimeout(resolve, 5));
  fails = false;
  const started = performance.now();
  await client.signedIn();
  await server.until(() => server.streams.length === 1);
  assert.ok(performance.now() - started < 400, `${performance.now() - started} ms`);
});

test('a call of a page that shows another user is not sent', async (t) => {
  const { server, client, mine, source } = await withAda(t);
  server.rpc.remove = answers(1, 1);
  source.token = () => jwt({ sub: 'bob' });
  await assert.rejects(client.call('remove', {}), { code: 'caller_changed' });
  assert.deepEqual([(await mine.next()).code, await mine.next()], ['caller_changed', 'of bob']);
  assert.equal((await client.call('remove', {})).value, 1);
  assert.deepEqual(server.requests.map(userOf), ['ada', 'bob', 'bob']);
});

test('a token source that throws after a sign-out ends the stream and the values of the user', async (t) => {
  const { server, client, mine, source } = await withAda(t);
  source.token = () => {
    throw new Error('login_required');
  };
  await assert.rejects(client.signedIn(), { message: 'login_required' });
  assert.deepEqual([(await mine.next()).code, (await mine.next()).code], ['caller_changed', 'token_failed']);
  await server.until(() => !server.streams[0].isOpen);
  const late = watch(client, 'mine', {});
  assert.equal((await late.next()).code, 'token_failed');
  assert.deepEqual([late.values, mine.values], [[], ['of ada']]);
  source.token = () => jwt({ sub: 'bob' });
  await client.signedIn();
  assert.deepEqual([await mine.next(), await late.next()], ['of bob', 'of bob']);
});

test('listeners are told to forget what they show before the next user is served', async (t) => {
  const { server, client, mine, source } = await withAda(t);
  source.token = () => jwt({ sub: 'bob' });
  server.refuse = () => [503, { code: 'overloaded' }, { 'Retry-After': '5' }];
  await client.signedIn();
  assert.equal((await mine.next()).code, 'caller_changed');
});

test('a listener that subscribes anew when the caller changes gets the next value, and no error', async (t) => {
  const { client, source } = await withAda(t);
  let errors = 0;
  let stop;
  const values = [];
  const subscribe = () => {
    const again = () => ((errors += 1), stop(), errors < 100 && subscribe());
    stop = client.live('mine', {}, (value) => values.push(value), again);
  };
  subscribe();
  await Promise.resolve();
  source.token = () => jwt({ sub: 'bob' });
  await client.signedIn();
  const late = watch(client, 'mine', {});
  assert.equal(await late.next(), 'of bob');
  assert.deepEqual([errors, values], [1, ['of ada', 'of bob']]);
});

test('what has no listeners is not asked for as the next user', async (t) => {
  const { server, client, mine, source } = await withAda(t);
  const view = watch(client, 'view', {});
  await server.until(() => server.streams[0].keyOf('view'));
  view.stop();
  source.token = () => jwt({ sub: 'bob' });
  await client.signedIn();
  await mine.next();
  await server.until(() => server.streams.length === 2);
  assert.deepEqual([...server.streams[1].subscriptions.values()].map(({ query }) => query), ['mine']);
});

test('a mutation is sent again for the same user only', async (t) => {
  const server = await startServer(t);
  server.rpc.post = answers(1, 1);
  let user = 'ada';
  server.refuse = () => ((user = 'bob'), server.requests.length === 1 ? [503, { code: 'overloaded' }] : undefined);
  const client = newClient(t, server, { token: () => jwt({ sub: user }) });
  await assert.rejects(client.call('post', {}, { idempotencyKey: 'k' }), { code: 'overloaded' });
  assert.deepEqual(server.requests.map(userOf), ['ada']);
  server.refuse = (request) => (userOf(request) === 'bob' ? [401, { code: 'invalid_token' }] : undefined);
  const other = newClient(t, server, { token: (refused) => jwt({ sub: refused ? 'ada' : 'bob' }) });
  await assert.rejects(other.call('post', {}), { status: 401 });
  assert.deepEqual(server.requests.map(userOf), ['ada', 'bob']);
});

test('what a provider writes into each token anew makes no other caller', async (t) => {
  const { server, client, mine, source } = await withAda(t);
  const claims = { at_hash: 'a', c_hash: 'c', s_hash: 's', nonce: 'n', uti: 'u', aio: 'o', rh: 'r' };
  source.token = () => jwt({ sub: 'ada', ...claims });
  await client.signedIn();
  server.streams[0].value('mine', 2, 'later');
  assert.equal(await mine.next(), 'later');
  assert.deepEqual([mine.errors, server.streams.length], [[], 1]);
});

test('a token without a user identifies by itself', async (t) => {
  const server = await startServer(t);
  let session = 'of ada';
  const client = newClient(t, server, { token: () => jwt({ iss: 'i', jti: session }) });
  const mine = watch(client, 'mine', {});
  await server.until(() => server.streams.length === 1);
  server.streams[0].value('mine', 1, 'of ada');
  await mine.next();
  session = 'of bob';
  await client.signedIn();
  assert.equal((await mine.next()).code, 'caller_changed');
  await server.until(() => server.streams.length === 2 && !server.streams[0].isOpen);
});

test('a tab asks who is signed in when the user looks at it again', async (t) => {
  const browser = startBrowser(t);
  const { server, client, mine, source } = await withAda(t);
  const follower = newClient(t, server, { token: () => source.token() });
  const seen = watch(follower, 'mine', {});
  assert.equal(await seen.next(), 'of ada');
  assert.equal(server.streams.length, 1);
  client.close();
  source.token = () => jwt({ sub: 'bob' });
  browser.look();
  assert.equal((await seen.next()).code, 'caller_changed');
  assert.equal(await seen.next(), 'of bob');
  assert.deepEqual(mine.values, ['of ada']);
});

test('a call does not wait for a token source that hangs, once it is aborted', async (t) => {
  const server = await startServer(t);
  server.rpc.x = answers(1, 1);
  let isHanging = true;
  const client = newClient(t, server, { token: () => (isHanging ? new Promise(() => {}) : 'token'), timing: { token: 50 } });
  const abort = new AbortController();
  const call = client.call('x', {}, { signal: abort.signal });
  abort.abort();
  await assert.rejects(call, { name: 'AbortError' });
  await assert.rejects(client.call('x', {}), /has not returned/);
  const live = watch(client, 'live', {});
  assert.equal((await live.next()).code, 'token_failed');
  isHanging = false;
  assert.equal((await client.call('x', {})).value, 1);
  await server.until(() => server.streams.length === 1);
  server.streams[0].value('live', 1, 1);
  assert.equal(await live.next(), 1);
});

test('a token source that hangs does not keep a process alive after `close`', async (t) => {
  const server = await startServer(t);
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  const before = timers();
  const client = newClient(t, server, { token: () => new Promise(() => {}) });
  client.call('x', {}).catch(() => {});
  client.close();
  assert.equal(timers(), before);
});

test('calls use a token that is valid while its renewal fails, and the renewal is tried again', async (t) => {
  const server = await startServer(t);
  server.rpc.x = answers(1, 1);
  const token = jwt({ sub: 'ada', exp: Date.now() / 1000 + 3 });
  let renewals = 0;
  const source = (old) => {
    if (!old) return token;
    renewals += 1;
    if (renewals < 2) throw new Error('away');
    return jwt({ sub: 'ada', exp: Date.now() / 1000 + 60 });
  };
  const client = newClient(t, server, { token: source });
  watch(client, 'live', {});
  await server.until(() => server.streams.length === 1);
  while (renewals < 1) await new Promise((resolve) => setImmediate(resolve));
  assert.equal((await client.call('x', {})).value, 1);
  await server.until(() => server.streams[0].changes.length === 1);
  assert.ok(server.streams[0].isOpen && server.streams.length === 1);
});

test('a slow token source does not make a stream silent', async (t) => {
  const server = await startServer(t);
  const token = () => new Promise((resolve) => setTimeout(resolve, 120, 'token'));
  const client = newClient(t, server, { token, timing: { silence: 60 } });
  const live = watch(client, 'live', {});
  await server.until(() => server.streams.length === 1);
  server.streams[0].value('live', 1, 1);
  assert.equal(await live.next(), 1);
  assert.equal(server.streams.length, 1);
});

test('no token is no header, and a header that cannot be sent is no failure of the connection', async (t) => {
  const server = await startServer(t);
  server.rpc.x = answers(1, 1);
  const client = newClient(t, server, { token: () => null });
  await client.call('x', {});
  assert.equal(server.requests[0].headers.authorization, undefined);
  await assert.rejects(client.call('x', {}, { idempotencyKey: '→' }), TypeError);
  assert.equal(server.requests.length, 1);
});

test('a token that cannot be sent is an error of the queries, not an endless wait', async (t) => {
  const server = await startServer(t);
  const good = jwt({ sub: 'ada' });
  let token = `${good}\nx`;
  const q = watch(newClient(t, server, { token: () => token }), 'q', {});
  assert.equal((await q.next()).code, 'token_failed');
  token = good;
  server.onStream = (stream) => (stream.hello(), stream.value('q', 1, 1));
  assert.equal(await q.next(), 1);
});
