// Opens six tabs of one browser; each opens a stream with the token on stdin and waits for its first event. Then the last
// tab sends one more request. Prints the events, the protocol of the connection, and the status of that request.

import { text } from 'node:stream/consumers';
import { startBrowser } from '../outside/node/lib/browser.mjs';

const [issuer] = process.argv.slice(2);
const token = await text(process.stdin);
const browser = await startBrowser();
const context = await browser.newContext({ ignoreHTTPSErrors: true });
const tabs = [];
const events = [];
for (let n = 0; n < 6; n += 1) {
  const tab = await context.newPage();
  // A page without a content security policy.
  await tab.goto(`${issuer}/healthz`);
  events.push(await tab.evaluate(async (token) => {
    const answer = await fetch('/api/live', { headers: { authorization: `Bearer ${token}` } });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    while (!text.includes('\n\n')) text += (await reader.read()).value;
    // The stream stays open as long as the tab.
    globalThis.reader = reader;
    return text.match(/^event: (\w+)/m)[1];
  }, token));
  tabs.push(tab);
}
const [status, protocol] = await tabs.at(-1).evaluate(async (token) => {
  const answer = await fetch('/api/user', { headers: { authorization: `Bearer ${token}` } });
  // The entry is there when the body has been read.
  await answer.text();
  const entry = performance.getEntriesByType('resource').find(({ name }) => name.endsWith('/api/user'));
  return [answer.status, entry?.nextHopProtocol];
}, token);
console.log(JSON.stringify({ events, protocol, status }));
await browser.close();
