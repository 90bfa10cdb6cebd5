// A web server that is not Sarsen: an empty page, at a client's redirect URI or at an origin of its own.

import { createServer } from 'node:http';

/** `port` 0 takes a free one. `origin` is undefined when another program holds the port. */
export async function startPlainPage(port, hostname = '127.0.0.1') {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' });
    response.end('<!doctype html><html lang="en"><title>A client</title><p>A client of Sarsen.</p></html>');
  });
  const origin = await new Promise((resolve) => {
    server.once('error', () => resolve(undefined));
    server.listen(port, hostname, () => resolve(`http://${hostname}:${server.address().port}`));
  });
  const stop = () => new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
  return { origin, stop };
}
