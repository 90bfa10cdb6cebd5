// Open pages, one at each address: node pages.mjs TOKEN COUNTER ADDRESS… prints a line of JSON for each thing that a page shows
// (`value`), each answer that its stream has (`version`), and each stream that is opened (`stream`).

import { Client } from '../../../sdk/typescript/dist/sarsen-client.js';

const [token, counter, ...addresses] = process.argv.slice(2);
const say = (page, seen) => process.stdout.write(`${JSON.stringify({ page, ...seen })}\n`);

/** Passes the bytes on, and says the version of each answer. */
function noting(page) {
  const decoder = new TextDecoder();
  let rest = '';
  return new TransformStream({
    transform(chunk, to) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
      rest = lines.pop();
      for (const line of lines) {
        const version = /^data: .*"version":"([^"]+)"/.exec(line)?.[1];
        if (version) say(page, { version });
      }
      to.enqueue(chunk);
    },
  });
}

addresses.forEach((url, page) => {
  const noted = async (address, init) => {
    const response = await fetch(address, init);
    if (!response.headers.get('content-type')?.startsWith('text/event-stream')) return response;
    say(page, { stream: response.status });
    return new Response(response.body.pipeThrough(noting(page)), response);
  };
  const client = new Client({ url, token: () => token, fetch: noted });
  client.live('get_counter', { id: Number(counter) }, ({ value }) => say(page, { value }), () => {});
});
