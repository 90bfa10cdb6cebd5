// A Sarsen as somebody installs it: `sarsen init`, `sarsen serve` on a SQLite file in a folder of its own, nobody there yet.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { BINARY } from './demo.mjs';

const START_LIMIT_MS = 60_000;
const STOP_LIMIT_MS = 15_000;

/** Its `issuer`, `setUpLink()`, `run(...arguments)` of a command in its folder, and `stop()`. */
export async function startServer() {
  const folder = await mkdtemp(join(tmpdir(), 'sarsen-server-'));
  const port = await freePort();
  const issuer = `http://localhost:${port}`;
  const command = promisify(execFile);
  const run = (...args) => command(BINARY, args, { cwd: folder });
  await run('init', '--yes', '--issuer', issuer);
  const child = spawn(BINARY, ['serve', '--listen', `127.0.0.1:${port}`], { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '';
  const ended = new Promise((resolve) => child.once('exit', resolve));

  async function stop() {
    child.kill('SIGTERM');
    const killer = setTimeout(() => child.kill('SIGKILL'), STOP_LIMIT_MS);
    await ended;
    clearTimeout(killer);
    await rm(folder, { recursive: true, force: true });
  }

  let timer;
  const listens = await Promise.race([
    new Promise((resolve) => child.stderr.setEncoding('utf8').on('data', (text) => {
      log += text;
      if (log.includes('listening')) resolve(true);
    })),
    ended.then(() => false),
    new Promise((resolve) => { timer = setTimeout(() => resolve(false), START_LIMIT_MS); }),
  ]);
  clearTimeout(timer);
  if (!listens) {
    await stop();
    assert.fail(`the server did not come up:\n${log}`);
  }
  const setUpLink = async () => (await readFile(join(folder, 'setup-link.txt'), 'utf8')).trim();
  return { issuer, setUpLink, run, stop };
}

/** A port of this machine that nobody uses. */
export async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}
