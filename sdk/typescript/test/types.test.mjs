// What `App::typescript` prints types the client: right calls compile, wrong ones do not.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { tsc } from '../build.mjs';

const HERE = fileURLToPath(new URL('..', import.meta.url));
const API = join(HERE, '../../crates/live/src/typescript_expected.ts');
const PAGE = join(HERE, '../../examples/counters/page');

const PROGRAM = `
import { type ArgsOf, Client, type NameOf, ProblemError, type ValueOf } from '@sarsen/client';
import type { Api, Order } from './api.js';

const client = new Client<Api>({ url: 'http://localhost', token: async () => 'token' });

export async function right(): Promise<Order | undefined> {
  await client.call('clear', {}, { idempotencyKey: 'a', optimistic: (local) =>
    local.update('list_orders', { state: 'open' }, (orders) => orders.filter((order) => order.pair[1] > 0)) });
  const stop = client.live('list_orders', { state: 'sent_away', after: null }, (orders, { optimistic }) =>
    console.log(orders[0]?.lines[0]?.price.toFixed(), optimistic), (error) => console.log(error.field));
  stop();
  const { value, version } = await client.call('list_orders', { state: 'open', 'with-lines': true });
  const [order] = value;
  if (order?.payment.kind === 'card') console.log(order.payment.last4, version?.length);
  return order?.parent ?? undefined;
}

/** As a hook of a framework does. */
export function watch<N extends NameOf<Api['queries']>>(
  query: N,
  args: ArgsOf<Api['queries'], N>,
  show: (value: ValueOf<Api['queries'], N>) => void,
): () => void {
  return client.live(query, args, show);
}

export const stop = watch('list_orders', { state: 'open' }, (orders) => console.log(orders[0]?.lines.length));

export async function wrong(): Promise<void> {
  // @ts-expect-error: no such state
  watch('list_orders', { state: 'closed' }, () => {});
  // @ts-expect-error: there is no such query
  await client.call('list_order', { state: 'open' });
  // @ts-expect-error: a required argument is missing
  await client.call('list_orders', {});
  // @ts-expect-error: no such state
  await client.call('list_orders', { state: 'closed' });
  // @ts-expect-error: mutations cannot be subscribed to
  client.live('clear', {}, () => {});
  // @ts-expect-error: the value is a list
  client.live('list_orders', { state: 'open' }, (orders) => orders.id);
  // @ts-expect-error: the change must return a list
  await client.call('clear', {}, { optimistic: (local) => local.update('list_orders', { state: 'open' }, () => 1) });
}

export async function untyped(): Promise<number> {
  const { value } = await new Client().call('anything', { at: 1 }).catch((error: ProblemError) => ({ value: error.status }));
  return value;
}
`;

/** Checks a program that imports `./api.js`. Fails with what the compiler says. */
function check(t, name, text, api) {
  const folder = mkdtempSync(join(tmpdir(), 'sarsen-client-types-'));
  t.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, name), text);
  copyFileSync(api, join(folder, 'api.d.ts'));
  const compilerOptions = {
    target: 'es2022', module: 'es2022', moduleResolution: 'bundler', lib: ['es2022', 'dom', 'dom.iterable'], types: [],
    strict: true, noEmit: true, allowJs: true, checkJs: true, noUncheckedIndexedAccess: true,
    paths: { '@sarsen/client': [join(HERE, 'dist/types/index.d.ts')] },
  };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: [name] }));
  const [program, ...args] = tsc('--project', folder);
  try {
    execFileSync(program, args, { encoding: 'utf8' });
  } catch (error) {
    assert.fail(error.stdout);
  }
}

test('the types of a back end type the client', (t) => check(t, 'program.ts', PROGRAM, API));

test('the page of the counters example fits the types of its back end', (t) => {
  const text = readFileSync(join(PAGE, 'counters.js'), 'utf8');
  check(t, 'counters.js', text.replace('/page/sarsen-client.js', '@sarsen/client'), join(PAGE, 'api.d.ts'));
});
