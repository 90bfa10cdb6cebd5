// A client under test, and what its subscriptions deliver.

import { Client } from '../../dist/sarsen-client.js';
import { version } from './server.mjs';

/** A client that the test closes. */
export function newClient(t, server, options = {}) {
  const client = new Client({ url: server.url, ...options });
  t.after(() => client.close());
  return client;
}

/** Collects what a subscription delivers; `next()` waits for the next value or error. */
export function watch(client, query, args) {
  const seen = { values: [], errors: [], infos: [] };
  let wake = () => {};
  let taken = 0;
  const all = [];
  const put = (item) => {
    all.push(item);
    wake();
  };
  seen.stop = client.live(
    query,
    args,
    (value, info) => {
      seen.values.push(value);
      seen.infos.push(info);
      put(value);
    },
    (error) => {
      seen.errors.push(error);
      put(error);
    },
  );
  seen.next = async () => {
    while (all.length <= taken) await new Promise((resolve) => (wake = resolve));
    return all[taken++];
  };
  return seen;
}

/** A token without a signature. */
export const jwt = (claims) => `x.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.y`;

/** An answer of a call. */
export const answers = (value, number) => (_request, response) =>
  response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify({ value, version: version(number) }));
