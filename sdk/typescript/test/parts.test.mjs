// The parser of event streams, versions, row changes, pauses and tokens.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './lib/modules.mjs';

const { EventParser } = await load('sse');
const { replaces, covers } = await load('version');
const { after, canonical, have, merge, NOTHING } = await load('state');
const { pause, pauseAfterBye, pauseOfStream } = await load('backoff');
const { callerOf, expiry, Tokens } = await load('tokens');
const { Subscriptions } = await load('subscriptions');

const bytes = (text) => new TextEncoder().encode(text);
const event = (name, data, more = {}) => ({ event: name, data, id: undefined, retry: undefined, ...more });

test('events arrive whole, however the bytes are cut', () => {
  const text =
    '\uFEFFevent: hello\r\ndata: {"a":"ä€😀"}\r\n\r\n:\n\n: a comment\nevent: value\rid: 00.01\rdata: one\rdata:two\r\r' +
    'data\n\nevent: bye\nretry: 1200\nretry: soon\ndata: {}\nunknown: x\n\nevent: nothing\n\ndata: cut';
  const expected = [
    event('hello', '{"a":"ä€😀"}'),
    event('value', 'one\ntwo', { id: '00.01' }),
    event('message', ''),
    event('bye', '{}', { retry: 1200 }),
  ];
  const all = bytes(text);
  for (const size of [1, 2, 3, 5, 7, 64, all.length]) {
    const parser = new EventParser();
    const events = [];
    for (let at = 0; at < all.length; at += size) events.push(...parser.push(all.subarray(at, at + size)));
    assert.deepEqual(events, expected, `pieces of ${size} bytes`);
  }
});

test('versions are ordered within an epoch, and another epoch counts as newer', () => {
  const version = (epoch, number) => `${epoch.toString(16).padStart(16, '0')}.${number.toString(16).padStart(16, '0')}`;
  assert.ok(replaces(version(1, 10), version(1, 9)));
  assert.ok(replaces(version(1, 9), version(1, 9)));
  assert.ok(!replaces(version(1, 9), version(1, 10)));
  assert.ok(replaces(version(2, 1), version(1, 10)) && replaces(version(1, 10), version(2, 1)));
  assert.ok(replaces(undefined, version(1, 1)) && replaces(version(1, 1), undefined));
  assert.ok(covers(version(1, 10), version(1, 10)) && !covers(version(1, 9), version(1, 10)));
  assert.ok(!covers(version(2, 11), version(1, 10)) && !covers(undefined, version(1, 1)));
});

const rows = (...pairs) => pairs.map(([id, n]) => ({ id, n }));

test('row changes make the list that the server has', () => {
  const held = rows(['a', 1], ['b', 1], ['c', 1]);
  const kept = merge(held, { by: 'id', set: [['b', { id: 'b', n: 2 }], ['d', { id: 'd', n: 1 }]], gone: [] });
  assert.deepEqual(kept, rows(['a', 1], ['b', 2], ['c', 1], ['d', 1]));
  const ordered = merge(held, { by: 'id', set: [['d', { id: 'd', n: 4 }]], gone: ['b'], order: ['d', 'c', 'a'] });
  assert.deepEqual(ordered, rows(['d', 4], ['c', 1], ['a', 1]));
  assert.deepEqual(held, rows(['a', 1], ['b', 1], ['c', 1]), 'the old value is left alone');
});

test('a numeric key is its JSON text, and the field is found if only one fits', () => {
  const held = [{ id: 1, n: 5 }, { id: 2, n: 5 }];
  assert.deepEqual(merge(held, { set: [['2', { id: 2, n: 6 }]], gone: [] }), [{ id: 1, n: 5 }, { id: 2, n: 6 }]);
  const ambiguous = [{ id: 1, n: 1 }, { id: 2, n: 2 }];
  assert.equal(merge(ambiguous, { set: [], gone: ['2'] }), undefined);
  assert.deepEqual(merge(ambiguous, { by: 'id', set: [], gone: ['2'] }), [{ id: 1, n: 1 }]);
});

test('row changes that do not fit are refused', () => {
  const held = rows(['a', 1], ['b', 1]);
  assert.equal(merge(held, { by: 'id', set: [], gone: ['z'] }), undefined);
  assert.equal(merge(held, { by: 'id', set: [], gone: [], order: ['a'] }), undefined);
  assert.equal(merge(held, { by: 'id', set: [], gone: [], order: ['a', 'z'] }), undefined);
  assert.equal(merge({ not: 'a list' }, { by: 'id', set: [], gone: [] }), undefined);
  assert.equal(merge([{ n: 1 }], { by: 'id', set: [], gone: [] }), undefined);
});

test('row changes whose keys are not those of the rows here are refused', () => {
  const change = (key) => ({ by: 'id', set: [[key, JSON.parse(`{"id":${key},"n":2}`)]], gone: [] });
  assert.deepEqual(merge([{ id: 1, n: 1 }], change('1')), [{ id: 1, n: 2 }]);
  assert.equal(merge([{ id: 1, n: 1 }], change('1.0')), undefined);
  const large = JSON.parse('[{"id":1234567890123456789,"n":1}]');
  assert.equal(merge(large, change('1234567890123456789')), undefined);
  assert.equal(merge(large, change('1234567890123456800')), undefined, 'another row, though it is read as the same number');
  assert.equal(merge(large, change('1')), undefined);
});

test('a state takes the frames that are not older, and row changes of its own version only', () => {
  const first = after(NOTHING, 'value', '1.5', { digest: 'd5', value: rows(['a', 1]) });
  assert.equal(have(first), '1.5/d5');
  assert.equal(after(first, 'value', '1.4', { digest: 'd4', value: [] }), first);
  const change = { set: [['a', { id: 'a', n: 2 }]], gone: [], by: 'id', digest: 'd7' };
  assert.equal(after(first, 'rows', '1.7', { ...change, base: '1.4' }), undefined);
  const second = after(first, 'rows', '1.7', { ...change, base: '1.5' });
  assert.deepEqual([second.value, second.digest], [rows(['a', 2]), 'd7']);
  const same = after(second, 'same', '1.9', {});
  assert.deepEqual([same.version, same.value], ['1.9', second.value]);
  const restored = after(same, 'value', '2.1', { digest: 'r1', value: [] });
  assert.equal(restored.version, '2.1');
  const gone = after(restored, 'error', '2.2', { digest: 'e1', problem: { status: 404, code: 'not_found' } });
  assert.deepEqual([gone.hasValue, have(gone)], [false, '2.2/e1']);
  const still = after(gone, 'same', '2.3', {});
  assert.deepEqual([still.version, still.problem], ['2.3', gone.problem]);
});

test('equal arguments have one canonical text', () => {
  assert.equal(canonical({ b: [1, { d: 1, c: null }], a: 'x', u: undefined }), canonical({ a: 'x', b: [1, { c: null, d: 1 }] }));
  assert.notEqual(canonical({ a: 1 }), canonical({ a: '1' }));
  assert.equal(canonical({ at: new Date(0) }), '{"at":"1970-01-01T00:00:00.000Z"}');
});

test('pauses grow, are bounded and jittered', () => {
  assert.deepEqual([pause(0, 0, () => 0), pause(0, 0, () => 1)], [125, 250]);
  assert.deepEqual([pause(3, 0, () => 0), pause(3, 0, () => 1)], [1000, 2000]);
  assert.equal(pause(1000, 0, () => 1), 30_000);
  assert.equal(pause(0, 5000, () => 1), 5250);
  assert.deepEqual([pause(0, 3e9, () => 1), pauseAfterBye(3e9, () => 1)], [300_250, 300_000], 'timers have a limit');
  assert.deepEqual([pauseAfterBye(1000, () => 0), pauseAfterBye(1000, () => 1)], [500, 1000]);
});

test('a stream is tried again every second for ten seconds, and then more seldom', () => {
  const longest = (attempt) => pauseOfStream(attempt, 0, () => 1);
  assert.deepEqual([0, 1, 2, 3, 16].map(longest), [250, 500, 900, 900, 900]);
  assert.deepEqual([17, 18, 100].map(longest), [1000, 2000, 30_000]);
  let waited = 0;
  for (let attempt = 0; attempt < 17; attempt += 1) waited += pauseOfStream(attempt, 0, () => 0);
  assert.ok(waited > 6_500, 'also with the shortest pauses');
  assert.equal(pauseOfStream(5, 5000, () => 1), 5900, 'a server may ask for more');
});

test('a change that was committed is shown until a frame contains it, however long that takes', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const [shown, asked] = [[], []];
  const subscriptions = new Subscriptions(() => {});
  const source = { want: () => {}, drop: () => {}, close: () => {}, ask: (_id, version) => asked.push(version) };
  subscriptions.use(source);
  subscriptions.listen('q', {}, { onValue: (value) => shown.push(value), onError: undefined });
  subscriptions.state('q {}', { version: '1.1', digest: 'a', value: 1, hasValue: true });
  subscriptions.apply('q', {}, { apply: (value) => value + 1 }).answered('1.5');
  // One by one: a timer that another one sets counts from the end of the tick.
  for (let second = 0; second < 60; second += 1) t.mock.timers.tick(1_000);
  assert.deepEqual([shown, asked], [[1, 2], ['1.5', '1.5', '1.5', '1.5', '1.5']]);
  subscriptions.state('q {}', { version: '1.5', digest: 'b', value: 2, hasValue: true });
  subscriptions.state('q {}', { version: '1.6', digest: 'c', value: 7, hasValue: true });
  t.mock.timers.tick(60_000);
  assert.deepEqual([shown, asked.length], [[1, 2, 2, 7], 5]);
  subscriptions.close();
});

const jwt = (claims) => `x.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.y`;

test('a refreshed token has the same caller, other claims have another', async () => {
  const caller = (claims) => callerOf(jwt(claims));
  const first = await caller({ sub: 'ädä', exp: 1, jti: 'a', role: 'x' });
  assert.equal(first, await caller({ role: 'x', sub: 'ädä', exp: 2, iat: 1, jti: 'b' }));
  assert.notEqual(first, await caller({ sub: 'ädä', exp: 1, role: 'y' }));
  const ofOneToken = ['iat', 'exp', 'nbf', 'jti', 'auth_time', 'at_hash', 'c_hash', 's_hash', 'nonce', 'uti', 'aio', 'rh'];
  for (const name of ofOneToken) assert.equal(await caller({ sub: 'a', [name]: 1 }), await caller({ sub: 'a', [name]: 2 }), name);
  assert.notEqual(await callerOf('opaque1'), await callerOf('opaque2'));
  assert.equal(expiry(jwt({ exp: 12 })), 12_000);
  assert.deepEqual([expiry('opaque'), expiry(undefined), expiry('a.%%.c')], [undefined, undefined, undefined]);
});

test('requests that are refused together ask for a token once; a refused token is not used again', async () => {
  const asked = [];
  const tokens = new Tokens(async (refused) => {
    asked.push(refused);
    return refused === undefined ? 'old' : 'new';
  }, 1000);
  assert.equal(await tokens.get(), 'old');
  assert.deepEqual(await Promise.all([tokens.renew('old'), tokens.renew('old'), tokens.get()]), ['new', 'new', 'new']);
  assert.deepEqual(asked, [undefined, 'old']);
  assert.equal(await tokens.get(), 'new');
});
