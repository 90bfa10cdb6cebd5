// A server whose answers the test decides: it speaks the protocol, and has no data of its own.

import { createServer } from 'node:http';
import { once } from 'node:events';

export async function startServer(t) {
  const server = new Server();
  await server.listen();
  t.after(() => server.stop());
  return server;
}

export const version = (number, epoch = 1) =>
  `${epoch.toString(16).padStart(16, '0')}.${number.toString(16).padStart(16, '0')}`;

class Server {
  /** All requests: `{ method, path, token, headers, body }`. */
  requests = [];
  /** Streams, the newest last. */
  streams = [];
  /** Answers to RPC calls and polls, by name: `(request, response) => …`. */
  rpc = {};
  onPoll = undefined;
  /** Refuses requests: returns `[status, problem, headers?]`, or nothing. */
  refuse = () => undefined;
  /** Whether the network in between answers a request with a page of its own. */
  isCaught = () => false;
  /** What a new stream does. By default it sends `hello`. */
  onStream = (stream) => stream.hello();
  #waiting = [];

  async listen(port = 0) {
    this.http = createServer((request, response) => this.#serve(request, response));
    this.http.listen(port, '127.0.0.1');
    await once(this.http, 'listening');
    this.port = this.http.address().port;
    this.url = `http://127.0.0.1:${this.port}`;
  }

  async stop() {
    if (!this.http.listening) return;
    const closed = once(this.http, 'close');
    this.http.close();
    this.http.closeAllConnections();
    await closed;
  }

  /** Waits until `found` is true of the server. */
  async until(found) {
    while (!found(this)) await new Promise((resolve) => this.#waiting.push(resolve));
    return this;
  }

  #changed() {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  async #serve(request, response) {
    let text = '';
    for await (const chunk of request) text += chunk;
    const url = new URL(request.url, this.url);
    const token = request.headers.authorization?.slice('Bearer '.length);
    const seen = { method: request.method, path: url.pathname, query: url.searchParams, token, headers: request.headers };
    seen.body = text ? JSON.parse(text) : undefined;
    this.requests.push(seen);
    const refused = this.refuse(seen);
    const [, first, second] = url.pathname.split('/');
    if (this.isCaught(seen)) {
      response.writeHead(200, { 'Content-Type': 'text/html' }).end('<html>Sign in to the network');
    } else if (refused) {
      const headers = { 'Content-Type': 'application/problem+json', ...refused[2] };
      response.writeHead(refused[0], headers).end(JSON.stringify({ status: refused[0], ...refused[1] }));
    } else if (first === 'rpc') {
      await this.rpc[second](seen, response);
    } else if (second === 'poll') {
      response.setHeader('Content-Type', 'text/event-stream');
      this.onPoll(seen, response);
    } else if (second === undefined) {
      const stream = new Stream(`s${this.streams.length + 1}`, seen, response);
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      response.on('close', () => this.#changed());
      this.streams.push(stream);
      this.onStream(stream);
    } else {
      const stream = this.streams.find((stream) => stream.name === second && stream.isOpen);
      if (stream) stream.change(seen);
      response.writeHead(stream ? 204 : 409).end(stream ? undefined : JSON.stringify({ code: 'stream_elsewhere' }));
      if (stream) stream.onChange(seen.body);
    }
    this.#changed();
  }
}

class Stream {
  /** The present subscriptions, by key. */
  subscriptions = new Map();
  isOpen = true;
  /** What it does after a change. */
  onChange = () => {};

  constructor(name, opening, response) {
    this.name = name;
    this.opening = opening;
    this.response = response;
    this.changes = [];
    for (const subscription of opening.body.subscriptions) this.subscriptions.set(subscription.key, subscription);
    response.on('close', () => (this.isOpen = false));
  }

  change(request) {
    this.changes.push(request);
    for (const key of request.body.remove) this.subscriptions.delete(key);
    for (const subscription of request.body.add) this.subscriptions.set(subscription.key, subscription);
  }

  keyOf(query) {
    return [...this.subscriptions.values()].find((subscription) => subscription.query === query)?.key;
  }

  hello() {
    this.write('event: hello\ndata: ' + JSON.stringify({ stream: this.name, secret: `secret of ${this.name}` }) + '\n\n');
  }

  send(event, id, query, data, key = this.keyOf(query)) {
    const keys = { keys: [key] };
    const idLine = id === undefined ? '' : `id: ${id}\n`;
    this.write(`event: ${event}\n${idLine}data: ${JSON.stringify({ ...keys, version: id, ...data })}\n\n`);
  }

  value(query, number, value, epoch, key) {
    this.send('value', version(number, epoch), query, { digest: `d${JSON.stringify(value)}`, value }, key);
  }

  bye(retry) {
    this.write(`event: bye\nretry: ${retry}\ndata: {}\n\n`);
    this.end();
  }

  write(text) {
    this.response.write(text);
  }

  end() {
    this.isOpen = false;
    this.response.end();
  }

  /** As if the process had been killed. */
  kill() {
    this.isOpen = false;
    this.response.destroy();
  }
}
