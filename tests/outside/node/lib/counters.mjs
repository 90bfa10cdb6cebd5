// The example `counters` on a SQLite file of its own. It can be killed and started again at the same address.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { BINARY } from './demo.mjs';

const PROGRAM = process.env.COUNTERS_BIN ?? join(dirname(BINARY), 'counters');

/** Its `url`, `kill()`, `start()`, `stop()`. */
export async function startCounters() {
  const folder = await mkdtemp(join(tmpdir(), 'sarsen-counters-'));
  const listen = `127.0.0.1:${await freePort()}`;
  let child;
  let ended;

  async function start() {
    const args = ['--database', `sqlite:${join(folder, 'counters.db')}`, '--listen', listen];
    child = spawn(PROGRAM, args, { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] });
    ended = new Promise((resolve) => {
      child.once('error', resolve);
      child.once('exit', resolve);
    });
    const line = new Promise((resolve) => createInterface({ input: child.stdout }).once('line', resolve));
    const first = await Promise.race([line, ended]);
    assert.match(String(first), /http/, `${PROGRAM} did not come up`);
  }

  async function end(signal) {
    child.kill(signal);
    await ended;
  }

  async function stop() {
    await end('SIGKILL');
    await rm(folder, { recursive: true, force: true });
  }

  await start();
  return { url: `http://${listen}`, start, kill: () => end('SIGKILL'), terminate: () => end('SIGTERM'), stop };
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}
