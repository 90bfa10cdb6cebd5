// The client as an application uses it, against a server that the test scripts.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConnectionError, ProblemError } from '../dist/sarsen-client.js';
import { startServer, version } from './lib/server.mjs';
import { answers, jwt, newClient, watch } from './lib/watch.mjs';

test('a call returns value and version, and sends them back with the next', async (t) => {
  const server = await startServer(t);
  server.rpc.increment = answers({ id: 7, value: 3 }, 12);
  const client = newClient(t, server, { token: () => 'secret' });
  const answer = await client.call('increment', { id: 7 }, { idempotencyKey: 'once' });
  assert.deepEqual(answer, { value: { id: 7, value: 3 }, version: version(12) });
  await client.call('increment', { id: 7 });
  const [first, second] = server.requests;
  assert.deepEqual([first.method, first.path, first.body, first.token], ['POST', '/rpc/increment', { id: 7 }, 'secret']);
  assert.equal(first.headers['idempotency-key'], 'once');
  assert.equal(second.headers['sarsen-version'], version(12));
});

test('a problem document becomes a typed error', async (t) => {
  const server = await startServer(t);
  const errors = [{ field: 'id', detail: 'must be positive' }];
  server.refuse = () => [400, { code: 'invalid_arguments', detail: '`id` is not valid.', errors }, { 'X-Request-Id': 'r-7' }];
  const client = newClient(t, server);
  const error = await client.call('increment', { id: -1 }).catch((error) => error);
  assert.ok(error instanceof ProblemError);
  assert.equal(error.requestId, 'r-7');
  assert.deepEqual([error.code, error.status, error.field, error.message], ['invalid_arguments', 400, 'id', '`id` is not valid.']);
  server.refuse = () => [503, { code: 'overloaded' }, { 'Retry-After': '3' }];
  assert.equal((await client.call('increment', {}).catch((error) => error)).retryAfter, 3);
  await server.stop();
  assert.ok((await client.call('increment', {}).catch((error) => error)) instanceof ConnectionError);
});

test('a mutation with an idempotency key is sent again, one without is not', async (t) => {
  const server = await startServer(t);
  server.rpc.increment = answers(1, 1);
  server.refuse = () => (server.requests.length % 2 === 1 ? [503, { code: 'overloaded' }] : undefined);
  const client = newClient(t, server);
  assert.equal((await client.call('increment', {}, { idempotencyKey: 'a' })).value, 1);
  assert.deepEqual(server.requests.map((request) => request.headers['idempotency-key']), ['a', 'a']);
  await assert.rejects(client.call('increment', {}), { code: 'overloaded' });
  assert.equal(server.requests.length, 3);
});

test('calls of one queue are sent one after another, however they end, and others beside them', async (t) => {
  const server = await startServer(t);
  const waiting = [];
  server.rpc.set = (request, response) => waiting.push({ body: request.body, end: (call) => call(request, response) });
  const client = newClient(t, server);
  const sent = () => waiting.map(({ body }) => body.to);
  const set = (to, queue, signal) => client.call('set', { to }, { queue, signal });
  const abort = new AbortController();
  const [first, given, second, other] = [set(1, 'title'), set(2, 'title', abort.signal), set(3, 'title'), set(4, 'text')];
  await server.until(() => waiting.length === 2);
  assert.deepEqual(sent().sort(), [1, 4]);
  abort.abort(new Error('given up'));
  await assert.rejects(given, /given up/);
  const answer = (to, call) => waiting.find(({ body }) => body.to === to).end(call);
  answer(4, answers('text', 1));
  assert.equal((await other).value, 'text');
  assert.deepEqual(sent().sort(), [1, 4], 'the one that was given up has not let the next one pass');
  answer(1, (_request, response) => response.writeHead(409, { 'Content-Type': 'application/problem+json' }).end('{"code":"conflict"}'));
  await assert.rejects(first, { code: 'conflict' });
  await server.until(() => waiting.length === 3);
  answer(3, answers('title', 2));
  assert.equal((await second).value, 'title');
});

test('a call that waits in its queue is not sent as the next user', async (t) => {
  const server = await startServer(t);
  const waiting = [];
  server.rpc.set = (request, response) => waiting.push({ body: request.body, end: (call) => call(request, response) });
  let sub = 'ada';
  const client = newClient(t, server, { token: () => jwt({ sub }) });
  const [first, second] = [1, 2].map((to) => client.call('set', { to }, { queue: 'title' }));
  await server.until(() => waiting.length === 1);
  sub = 'eve';
  await client.signedIn();
  waiting[0].end(answers('title', 1));
  await first;
  await assert.rejects(second, { code: 'caller_changed' });
  assert.equal(waiting.length, 1);
});

test('a call of a queue is not sent as a user who signs in before it is known whose it is', async (t) => {
  const server = await startServer(t);
  server.rpc.set = answers('title', 1);
  for (const early of [(asked) => asked(jwt({ sub: 'ada' })), (_, failed) => failed(new Error('offline'))]) {
    const asks = [];
    let token = () => new Promise((...ends) => asks.push(ends));
    const client = newClient(t, server, { token: () => token() });
    const call = client.call('set', { to: 1 }, { queue: 'title' });
    await server.until(() => asks.length === 1);
    token = () => jwt({ sub: 'eve' });
    await client.signedIn();
    early(...asks[0]);
    await assert.rejects(call, { code: 'caller_changed' });
  }
  assert.equal(server.requests.length, 0);
});

test('a call of a queue is of the user whom the page shows, though another tab has signed in another one', async (t) => {
  const server = await startServer(t);
  server.rpc.set = answers('title', 1);
  let sub = 'ada';
  let roles = [];
  const client = newClient(t, server, { token: () => jwt({ sub, roles }) });
  const set = () => client.call('set', { to: 1 }, { queue: 'title' });
  await set();
  roles = ['teacher'];
  await set();
  sub = 'eve';
  await assert.rejects(set(), { code: 'caller_changed' });
  assert.equal(server.requests.length, 2);
});

test('an answer that is cut or is not JSON is no answer, and is asked for again with a key', async (t) => {
  const server = await startServer(t);
  const cut = (_request, response) => {
    response.writeHead(200, { 'Content-Length': 100 });
    response.write('{"value":', () => response.destroy());
  };
  const page = (_request, response) => response.writeHead(200, { 'Content-Type': 'text/html' }).end('<html>Sign in to the network');
  const client = newClient(t, server);
  for (const broken of [cut, page]) {
    server.rpc.increment = broken;
    await assert.rejects(client.call('increment', {}), ConnectionError);
    server.rpc.increment = (...request) => ((server.rpc.increment = answers(1, 1)), broken(...request));
    assert.equal((await client.call('increment', {}, { idempotencyKey: 'a' })).value, 1);
  }
});

test('a call sends its arguments as they were, also when it is sent again', async (t) => {
  const server = await startServer(t);
  server.rpc.post = answers(1, 1);
  server.refuse = () => (server.requests.length === 1 ? [503, { code: 'overloaded' }] : undefined);
  const draft = { text: 'Hello' };
  const sent = newClient(t, server).call('post', draft, { idempotencyKey: 'a' });
  draft.text = '';
  await sent;
  assert.deepEqual(server.requests.map(({ body }) => body), [{ text: 'Hello' }, { text: 'Hello' }]);
});

test('an answer whose version cannot be sent back is no answer', async (t) => {
  const server = await startServer(t);
  const client = newClient(t, server);
  for (const body of [null, [], { value: 1 }, { value: 1, version: 5 }, { value: 1, version: 'a\nb' }]) {
    server.rpc.x = (_request, response) => response.end(JSON.stringify(body));
    await assert.rejects(client.call('x', {}), ConnectionError);
  }
  server.rpc.x = answers(1, 1);
  assert.equal((await client.call('x', {})).value, 1);
  assert.equal(server.requests.at(-1).headers['sarsen-version'], undefined);
});

test('a listener that was ended is not called, whoever ended it', async (t) => {
  const server = await startServer(t);
  const client = newClient(t, server);
  const calls = [];
  let next = () => {};
  const called = () => new Promise((resolve) => (next = resolve));
  const ends = [1, 2, 3].map((number) =>
    client.live('q', {}, (value) => {
      calls.push([number, value]);
      if (number === 1 && value === 1) ends[1]();
      if (number === 1 && value === 2) client.close();
      next();
    }),
  );
  await server.until(() => server.streams.length === 1);
  let heard = called();
  server.streams[0].value('q', 1, 1);
  await heard;
  heard = called();
  server.streams[0].value('q', 2, 2);
  await heard;
  assert.deepEqual(calls, [[1, 1], [3, 1], [1, 2]]);
});

test('a call to which no answer comes fails, and with a key it is sent again', async (t) => {
  const server = await startServer(t);
  server.rpc.add = (request, response) => {
    if (server.requests.length > 1) answers(1, 1)(request, response);
  };
  const client = newClient(t, server, { timing: { call: 300 } });
  assert.equal((await client.call('add', {}, { idempotencyKey: 'k' })).value, 1);
  assert.equal(server.requests.length, 2);
  server.rpc.add = () => {};
  await assert.rejects(client.call('add', {}), { name: 'ConnectionError' });
  const reason = new Error('not any more');
  await assert.rejects(client.call('add', {}, { signal: AbortSignal.abort(reason) }), reason);
});

test('a stream that breaks after its bye is opened again after the pause of the bye', async (t) => {
  const server = await startServer(t);
  const opened = [];
  server.onStream = (stream) => {
    opened.push(performance.now());
    stream.hello();
    if (opened.length > 1) return;
    stream.write('event: bye\nretry: 1500\ndata: {}\n\n');
    // Not the end of a body, but of the connection.
    setTimeout(() => stream.response.destroy(), 50);
  };
  watch(newClient(t, server), 'q', {});
  await server.until(() => opened.length === 2);
  assert.ok(opened[1] - opened[0] > 700, `${opened[1] - opened[0]} ms`);
});

test('a host that the server does not know is no fault of single subscriptions', async (t) => {
  const server = await startServer(t);
  server.refuse = () => [421, { code: 'unknown_host' }];
  const client = newClient(t, server);
  const seen = ['one', 'two', 'three'].map((query) => watch(client, query, {}));
  for (const one of seen) assert.equal((await one.next()).code, 'unknown_host');
  assert.ok(server.requests.every(({ body }) => body.subscriptions.length === 3));
});

test('a mutation is not sent again where the server asks for a long pause, and an abort ends the pause', async (t) => {
  const server = await startServer(t);
  let after = '3600';
  server.refuse = () => [503, { code: 'overloaded' }, { 'Retry-After': after }];
  const client = newClient(t, server);
  await assert.rejects(client.call('increment', {}, { idempotencyKey: 'a' }), { retryAfter: 3600 });
  after = '20';
  const abort = new AbortController();
  const call = client.call('increment', {}, { idempotencyKey: 'a', signal: abort.signal });
  await server.until(() => server.requests.length === 2);
  abort.abort(new Error('The user has left.'));
  await assert.rejects(call, { message: /The user has left|aborted/ });
});

test('each listener of the status ends alone, and a closed client is idle', async (t) => {
  const server = await startServer(t);
  const client = newClient(t, server);
  const statuses = [];
  const listener = (status) => statuses.push(status);
  const [stop] = [client.onStatus(listener), client.onStatus(listener)];
  stop();
  watch(client, 'get_counter', {});
  await server.until(() => server.streams.length === 1);
  assert.deepEqual(statuses.slice(0, 3), ['idle', 'idle', 'connecting']);
  client.close();
  assert.equal(statuses.at(-1), 'idle');
});

test('on 401 the client asks for a new token once', async (t) => {
  const server = await startServer(t);
  server.rpc.whoami = answers('ada', 1);
  server.refuse = (request) => (request.token === 'new' ? undefined : [401, { code: 'unauthenticated' }]);
  const asked = [];
  const token = (refused) => (asked.push(refused), refused === 'old' ? 'new' : 'old');
  const client = newClient(t, server, { token });
  assert.equal((await client.call('whoami', {})).value, 'ada');
  assert.deepEqual(asked, [undefined, 'old']);
  const stubborn = newClient(t, server, { token: () => 'old' });
  await assert.rejects(stubborn.call('whoami', {}), { status: 401 });
  assert.equal(server.requests.length, 3, 'a token that was refused is not sent twice');
});

test('one stream carries all subscriptions, and equal ones are one', async (t) => {
  const server = await startServer(t);
  const client = newClient(t, server);
  const first = watch(client, 'get_counter', { id: 7, of: 'x' });
  const list = watch(client, 'list_counters', {});
  await server.until(() => server.streams.length === 1);
  const [stream] = server.streams;
  assert.deepEqual([...stream.subscriptions.values()].map(({ query, args, rows, have }) => ({ query, args, rows, have })), [
    { query: 'get_counter', args: { id: 7, of: 'x' }, rows: true, have: undefined },
    { query: 'list_counters', args: {}, rows: true, have: undefined },
  ]);
  stream.value('get_counter', 5, { value: 1 });
  assert.deepEqual(await first.next(), { value: 1 });
  const late = watch(client, 'get_counter', { of: 'x', id: 7 });
  assert.deepEqual(late.values, [], 'nothing arrives before `live` has returned');
  assert.deepEqual(await late.next(), { value: 1 });
  stream.value('get_counter', 6, { value: 2 });
  assert.deepEqual([await first.next(), await late.next()], [{ value: 2 }, { value: 2 }]);
  assert.deepEqual(list.values, []);
  const other = watch(client, 'get_counter', { id: 8, of: 'x' });
  await server.until(() => stream.changes.length === 1);
  assert.equal(stream.changes[0].body.secret, 'secret of s1');
  assert.equal(server.streams.length, 1);
  other.stop();
  await server.until(() => stream.changes.length === 2);
  assert.deepEqual(stream.changes[1].body.remove, [stream.changes[0].body.add[0].key]);
});

test('what is subscribed to after a call is not older than its answer', async (t) => {
  const server = await startServer(t);
  server.rpc.create_room = answers({ id: 1 }, 12);
  const client = newClient(t, server);
  watch(client, 'list_rooms', {});
  await server.until(() => server.streams.length === 1);
  const [stream] = server.streams;
  await client.call('create_room', {});
  const room = watch(client, 'get_room', { id: 1 });
  await server.until(() => stream.changes.length === 1);
  assert.equal(stream.changes[0].body.add[0].have, `${version(12)}/-`);
  stream.value('get_room', 12, 'the room');
  assert.equal(await room.next(), 'the room');
});

test('versions never go back, except into another epoch', async (t) => {
  const server = await startServer(t);
  const counter = watch(newClient(t, server), 'get_counter', { id: 7 });
  await server.until(() => server.streams.length === 1);
  const [stream] = server.streams;
  stream.value('get_counter', 5, 50);
  stream.value('get_counter', 4, 40);
  stream.value('get_counter', 6, 60);
  stream.value('get_counter', 1, 10, 2);
  assert.deepEqual([await counter.next(), await counter.next(), await counter.next()], [50, 60, 10]);
});

test('an older state that answers what the client holds is the present one, and only the first frame does', async (t) => {
  const { server, stream, counter, increment, answer } = await optimistic(t);
  const done = increment();
  assert.equal(await counter.next(), 8);
  await answer(200, { value: 8, version: version(10) });
  await done;
  stream.send('value', version(9), 'get_counter', { digest: 'early', value: 20 });
  assert.equal(await counter.next(), 21, 'the change is not in that state');
  // The database is restored while the client has no connection: its numbers go back, the epoch stays.
  stream.bye(20);
  await server.until(() => server.streams.length === 2);
  assert.equal(server.streams[1].opening.body.subscriptions[0].have, `${version(9)}/early`);
  server.streams[1].value('get_counter', 4, 5);
  assert.equal(await counter.next(), 5, 'the change was answered before, and is not shown above another history');
  server.streams[1].value('get_counter', 3, 99);
  server.streams[1].value('get_counter', 6, 60);
  assert.equal(await counter.next(), 60, 'an older frame that answers nothing is ignored');
  assert.deepEqual(counter.infos.at(-1), { version: version(6), optimistic: false });
});

test('a stream that ends is resumed with what the client holds', async (t) => {
  const server = await startServer(t);
  const counter = watch(newClient(t, server), 'get_counter', { id: 7 });
  await server.until(() => server.streams.length === 1);
  server.streams[0].value('get_counter', 5, 50);
  await counter.next();
  server.streams[0].bye(20);
  await server.until(() => server.streams.length === 2);
  assert.equal(server.streams[1].opening.body.subscriptions[0].have, `${version(5)}/d50`);
  server.streams[1].send('same', version(8), 'get_counter', {});
  server.streams[1].end();
  await server.until(() => server.streams.length === 3);
  assert.equal(server.streams[2].opening.body.subscriptions[0].have, `${version(8)}/d50`);
  server.streams[2].value('get_counter', 9, 51);
  assert.equal(await counter.next(), 51);
  assert.deepEqual(counter.values, [50, 51]);
});

test('row changes are applied to the list that the client holds; others make it ask anew', async (t) => {
  const server = await startServer(t);
  const list = watch(newClient(t, server), 'list', {});
  await server.until(() => server.streams.length === 1);
  const [stream] = server.streams;
  stream.value('list', 5, [{ id: 'a', n: 1 }, { id: 'b', n: 1 }]);
  await list.next();
  const change = (base, id, n) => ({ base: version(base), by: 'id', digest: 'x', set: [[id, { id, n }]], gone: [] });
  stream.send('rows', version(6), 'list', change(5, 'b', 2));
  assert.deepEqual(await list.next(), [{ id: 'a', n: 1 }, { id: 'b', n: 2 }]);
  stream.send('rows', version(9), 'list', change(8, 'b', 3));
  await server.until(() => stream.changes.length === 1);
  const { add, remove } = stream.changes[0].body;
  assert.deepEqual([add[0].have, add[0].rows, remove.length], [`${version(6)}/-`, true, 1]);
  assert.equal(list.values.length, 2, 'the old list stays until the new one is there');
  stream.value('list', 9, [{ id: 'b', n: 3 }]);
  assert.deepEqual(await list.next(), [{ id: 'b', n: 3 }]);
});

for (const id of ['1.0', '1234567890123456789']) {
  test(`a list with the row key ${id}, which is another number here, is sent whole from then on`, { timeout: 10_000 }, async (t) => {
    const server = await startServer(t);
    const list = watch(newClient(t, server), 'list', {});
    await server.until(() => server.streams.length === 1);
    const [stream] = server.streams;
    const row = (n) => `{"id":${id},"n":${n}}`;
    // As text: `JSON.stringify` would write another number.
    const send = (event, number, data) => {
      const head = `"keys":["${stream.keyOf('list')}"],"digest":"d${number}"`;
      stream.write(`event: ${event}\nid: ${version(number)}\ndata: {${head},${data}}\n\n`);
    };
    send('value', 5, `"value":[${row(1)}]`);
    await list.next();
    send('rows', 6, `"base":"${version(5)}","by":"id","set":[["${id}",${row(2)}]],"gone":[]`);
    await server.until(() => stream.changes.length === 1);
    const [{ have, rows }] = stream.changes[0].body.add;
    assert.deepEqual([have, rows], [`${version(5)}/-`, false]);
    for (const number of [6, 7]) {
      send('value', number, `"value":[${row(number)}]`);
      await list.next();
    }
    assert.deepEqual(list.values.map((value) => value.map(({ n }) => n)), [[1], [6], [7]], 'no row is there twice');
    stream.bye(20);
    await server.until(() => server.streams.length === 2);
    const [again] = server.streams[1].opening.body.subscriptions;
    assert.deepEqual([again.have, again.rows, stream.changes.length], [`${version(7)}/d7`, false, 1]);
  });
}

test('a stream that another instance holds is opened anew with the full set', async (t) => {
  const server = await startServer(t);
  const client = newClient(t, server);
  watch(client, 'one', {});
  await server.until(() => server.streams.length === 1);
  server.refuse = (request) => (request.path === '/live/s1' ? [409, { code: 'stream_elsewhere' }] : undefined);
  watch(client, 'two', {});
  await server.until(() => server.streams.length === 2);
  const queries = server.streams[1].opening.body.subscriptions.map((subscription) => subscription.query);
  assert.deepEqual(queries, ['one', 'two']);
});

test('where changes often reach another instance, the pauses stay short', { timeout: 20_000 }, async (t) => {
  const server = await startServer(t);
  server.refuse = (request) => (/^\/live\/s/.test(request.path) ? [409, { code: 'stream_elsewhere' }] : undefined);
  const client = newClient(t, server);
  // Doubled, nine pauses take more than a minute.
  for (let n = 1; n <= 9; n += 1) {
    watch(client, 'one', { n });
    await server.until(() => server.streams.length === n && server.streams[n - 1].isOpen);
  }
});

test('a token source that renews late is asked again', { timeout: 20_000 }, async (t) => {
  const server = await startServer(t);
  const expires = Date.now() + 4000;
  const first = jwt({ sub: 'ada', exp: expires / 1000 });
  const next = jwt({ sub: 'ada', exp: expires / 1000 + 3600 });
  // The client asks 800 ms before the end, and again some 400 ms later.
  const token = () => (Date.now() < expires - 650 ? first : next);
  watch(newClient(t, server, { token }), 'one', {});
  await server.until(() => server.streams[0]?.changes.length === 1);
  assert.equal(server.streams[0].changes[0].token, next);
  assert.ok(server.streams[0].isOpen && server.streams.length === 1);
});

test('a problem of a query reaches its listeners, and a value may follow', async (t) => {
  const server = await startServer(t);
  const client = newClient(t, server);
  const counter = watch(client, 'get_counter', { id: 7 });
  await server.until(() => server.streams.length === 1);
  const problem = { status: 404, code: 'not_found', detail: 'Counter not found.' };
  server.streams[0].send('error', version(3), 'get_counter', { problem });
  assert.deepEqual([(await counter.next()).code, counter.errors.length], ['not_found', 1]);
  const late = watch(client, 'get_counter', { id: 7 });
  assert.equal((await late.next()).code, 'not_found');
  server.streams[0].value('get_counter', 4, 1);
  assert.equal(await counter.next(), 1);
});

test('a refused stream is an error for all its queries, and is tried again', async (t) => {
  const server = await startServer(t);
  let refusals = 0;
  server.refuse = () => (refusals++ < 1 ? [403, { code: 'forbidden' }] : undefined);
  const counter = watch(newClient(t, server), 'get_counter', { id: 7 });
  assert.equal((await counter.next()).code, 'forbidden');
  await server.until(() => server.streams.length === 1);
  server.streams[0].value('get_counter', 4, 1);
  assert.equal(await counter.next(), 1);
});

test('a silent stream is opened again, and after three the client polls', async (t) => {
  const server = await startServer(t);
  server.onStream = () => {};
  server.onPoll = ({ query }, response) => {
    const [subscription] = query.getAll('sub').map((text) => JSON.parse(text));
    const number = subscription.have ? Number.parseInt(subscription.have.split('/')[0].split('.')[1], 16) + 1 : 1;
    if (number > 3) return;
    const data = { keys: [subscription.key], version: version(number), digest: `d${number}`, value: number };
    response.end(`event: value\nid: ${version(number)}\ndata: ${JSON.stringify(data)}\n\n`);
  };
  const client = newClient(t, server, { timing: { silence: 30 } });
  const statuses = [];
  client.onStatus((status) => statuses.push(status));
  const counter = watch(client, 'get_counter', { id: 7 });
  assert.deepEqual([await counter.next(), await counter.next(), await counter.next()], [1, 2, 3]);
  assert.equal(server.streams.length, 3);
  assert.ok(statuses.includes('polling'));
});

test('short streams lead to polls as well', async (t) => {
  const server = await startServer(t);
  server.onStream = (stream) => (stream.hello(), stream.end());
  server.onPoll = ({ query }, response) => {
    const { key, have } = JSON.parse(query.get('sub'));
    if (have) return;
    response.end(`event: value\nid: ${version(1)}\ndata: ${JSON.stringify({ keys: [key], digest: 'd', value: 1 })}\n\n`);
  };
  const counter = watch(newClient(t, server), 'get_counter', { id: 7 });
  assert.equal(await counter.next(), 1);
  assert.equal(server.streams.length, 3);
});

test('a stream without a byte for two and a half heartbeats is opened again', async (t) => {
  const server = await startServer(t);
  const counter = watch(newClient(t, server, { timing: { heartbeat: 40 } }), 'get_counter', { id: 7 });
  await server.until(() => server.streams.length === 1);
  server.streams[0].value('get_counter', 1, 1);
  await server.until(() => server.streams.length === 2);
  assert.equal(server.streams[1].opening.body.subscriptions[0].have, `${version(1)}/d1`);
  assert.deepEqual(counter.values, [1]);
});

test('a token is renewed on the running stream before it expires', async (t) => {
  const server = await startServer(t);
  let made = 0;
  const token = () => jwt({ sub: 'ada', jti: (made += 1), exp: Date.now() / 1000 + 0.5 });
  const client = newClient(t, server, { token });
  watch(client, 'get_counter', { id: 7 });
  await server.until(() => server.streams[0]?.changes.length === 2);
  const [stream] = server.streams;
  const tokens = [stream.opening, ...stream.changes].map((request) => request.token);
  assert.equal(new Set(tokens).size, 3);
  assert.deepEqual(stream.changes[0].body, { secret: 'secret of s1', add: [], remove: [] });
  assert.ok(stream.isOpen && server.streams.length === 1);
});

test('another caller gets a stream of their own, and nothing of the one before', async (t) => {
  const server = await startServer(t);
  let user = 'ada';
  const client = newClient(t, server, { token: () => jwt({ sub: user }) });
  const counter = watch(client, 'get_counter', {});
  await server.until(() => server.streams.length === 1);
  server.streams[0].value('get_counter', 9, 'of ada');
  await counter.next();
  user = 'bob';
  await client.signedIn();
  await server.until(() => server.streams.length === 2);
  assert.equal(server.streams[1].opening.body.subscriptions[0].have, undefined);
  assert.equal(server.streams[0].isOpen, false);
  assert.deepEqual([(await counter.next()).code, counter.errors[0].status], ['caller_changed', 0]);
  server.streams[1].value('get_counter', 5, 'of bob');
  assert.equal(await counter.next(), 'of bob');
});

/** A client that watches a counter with the value 7, and whose mutation waits for `answer`. */
async function optimistic(t) {
  const server = await startServer(t);
  const client = newClient(t, server);
  const counter = watch(client, 'get_counter', { id: 7 });
  await server.until(() => server.streams.length === 1);
  const [stream] = server.streams;
  stream.value('get_counter', 5, 7);
  await counter.next();
  const waiting = [];
  server.rpc.increment = (_request, response) => waiting.push(response);
  const increment = () => client.call('increment', { id: 7 }, {
    optimistic: (local) => local.update('get_counter', { id: 7 }, (value) => value + 1),
  });
  const answer = async (status, body) => {
    await server.until(() => waiting.length > 0);
    waiting.shift().writeHead(status).end(JSON.stringify(body));
  };
  return { server, stream, counter, increment, answer };
}

test('an optimistic change is shown at once and dropped at the first frame that contains it', async (t) => {
  const { stream, counter, increment, answer } = await optimistic(t);
  const done = increment();
  assert.equal(await counter.next(), 8);
  assert.deepEqual(counter.infos.at(-1), { version: version(5), optimistic: true });
  await answer(200, { value: 9, version: version(10) });
  await done;
  // Somebody else's increment came first: its frame is older than the answer.
  stream.value('get_counter', 9, 8);
  assert.equal(await counter.next(), 9);
  stream.value('get_counter', 10, 9);
  stream.value('get_counter', 11, 12);
  while ((await counter.next()) !== 12);
  assert.deepEqual(counter.values, [7, 8, 9, 9, 12], 'none goes back; 9 is shown again when it is confirmed');
  assert.deepEqual(counter.infos.map(({ optimistic }) => optimistic), [false, true, true, false, false]);
});

test('a frame that overtakes the answer does not count the change twice', async (t) => {
  const { stream, counter, increment, answer } = await optimistic(t);
  const done = increment();
  await counter.next();
  stream.value('get_counter', 10, 8);
  await answer(200, { value: 8, version: version(10) });
  await done;
  stream.value('get_counter', 11, 9);
  while ((await counter.next()) !== 9);
  assert.deepEqual(counter.values, [7, 8, 8, 9]);
});

test('a listener is called once more when the value that it shows is confirmed', async (t) => {
  const { stream, counter, increment, answer } = await optimistic(t);
  const done = increment();
  assert.equal(await counter.next(), 8);
  await answer(200, { value: 8, version: version(10) });
  await done;
  stream.value('get_counter', 10, 8);
  stream.send('same', version(11), 'get_counter', {});
  stream.value('get_counter', 12, 9);
  while ((await counter.next()) !== 9);
  assert.deepEqual(counter.values, [7, 8, 8, 9]);
  assert.deepEqual(counter.infos[1], { version: version(5), optimistic: true });
  assert.deepEqual(counter.infos[2], { version: version(10), optimistic: false });
});

test('a frame that may lack the change, though its version is not older, does not drop it', async (t) => {
  const { stream, counter, increment, answer } = await optimistic(t);
  const done = increment();
  await counter.next();
  await answer(200, { value: 8, version: version(10) });
  await done;
  stream.send('value', version(12), 'get_counter', { settled: version(9), digest: 'a', value: 100 });
  assert.equal(await counter.next(), 101);
  stream.send('value', version(13), 'get_counter', { settled: version(11), digest: 'b', value: 102 });
  assert.equal(await counter.next(), 102);
});

test('another epoch counts as newer than the answer', async (t) => {
  const { stream, counter, increment, answer } = await optimistic(t);
  const done = increment();
  await counter.next();
  await answer(200, { value: 8, version: version(10) });
  await done;
  stream.value('get_counter', 1, 100, 2);
  assert.equal(await counter.next(), 100);
});

test('a mutation that fails takes its change back', async (t) => {
  const { counter, increment, answer } = await optimistic(t);
  const done = assert.rejects(increment(), { code: 'conflict' });
  assert.equal(await counter.next(), 8);
  await answer(409, { code: 'conflict' });
  await done;
  assert.equal(await counter.next(), 7);
});

test('an optimistic change reaches all live queries of a name that it changes', async (t) => {
  const server = await startServer(t);
  const client = newClient(t, server);
  const [first, second, empty] = [1, 2, 3].map((page) => watch(client, 'list', { page }));
  await server.until(() => server.streams.length === 1);
  const [stream] = server.streams;
  const key = (page) => [...stream.subscriptions.values()].find(({ args }) => args.page === page).key;
  stream.value('list', 1, [{ id: 1, value: 0 }], 1, key(1));
  stream.value('list', 1, [{ id: 2, value: 0 }], 1, key(2));
  await first.next();
  await second.next();
  const seen = [];
  server.rpc.increment = answers(1, 2);
  const call = client.call('increment', { id: 2 }, {
    optimistic: (local) =>
      local.updateAll('list', (rows, { page }) => {
        seen.push(page);
        return rows.some(({ id }) => id === 2) ? rows.map((row) => (row.id === 2 ? { ...row, value: row.value + 1 } : row)) : rows;
      }),
  });
  assert.deepEqual(await second.next(), [{ id: 2, value: 1 }]);
  assert.deepEqual([...new Set(seen)], [1, 2], 'what has no value is not changed');
  await call;
  stream.value('list', 2, [{ id: 2, value: 1 }], 1, key(2));
  while (second.infos.at(-1).optimistic) assert.deepEqual(await second.next(), [{ id: 2, value: 1 }]);
  assert.deepEqual([first.values.length, first.infos.at(-1).optimistic, empty.values.length], [1, false, 0]);
});

test('a change that cannot be made leaves nothing behind, and the mutation is not sent', async (t) => {
  const server = await startServer(t);
  const client = newClient(t, server);
  const counter = watch(client, 'get_counter', { id: 7 });
  await server.until(() => server.streams.length === 1);
  server.streams[0].value('get_counter', 5, 7);
  await counter.next();
  const optimistic = (local) => {
    local.update('get_counter', { id: 7 }, (value) => value + 100);
    throw new RangeError('no such row');
  };
  await assert.rejects(client.call('increment', { id: 7 }, { optimistic }), RangeError);
  assert.deepEqual(counter.values, [7, 107, 7]);
  assert.equal(server.requests.filter(({ path }) => path.startsWith('/rpc')).length, 0);
});

test('a change whose result is equal is settled by asking', async (t) => {
  const { server, stream, counter, increment, answer } = await optimistic(t);
  const done = increment();
  await counter.next();
  await answer(200, { value: 7, version: version(10) });
  await done;
  await server.until(() => stream.changes.length === 1);
  assert.equal(stream.changes[0].body.add[0].have, `${version(10)}/d7`);
  stream.send('same', version(10), 'get_counter', {});
  assert.equal(await counter.next(), 7);
});

test('who asks again asks for another run, which an equal result alone does not begin', async (t) => {
  const { server, stream, counter, increment, answer } = await optimistic(t);
  const done = increment();
  await counter.next();
  await answer(200, { value: 7, version: version(10) });
  await done;
  await server.until(() => stream.changes.length === 1);
  // The state may lack commits before its version, because another transaction is still open.
  stream.send('same', version(11), 'get_counter', { settled: version(9) });
  await server.until(() => stream.changes.length === 2);
  assert.equal(stream.changes[1].body.add[0].have, `${version(10)}/+`, 'the value that is shown stays');
  stream.send('same', version(11), 'get_counter', {});
  assert.equal(await counter.next(), 7);
});
