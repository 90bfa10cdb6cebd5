// The programs of `examples`, each on a SQLite file of its own. They can be killed and started again at the same address.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { BINARY } from './demo.mjs';
import { freePort } from './server.mjs';

export const startCounters = () => startExample('counters', process.env.COUNTERS_BIN);
export const startExams = () => startExample('exam_attempts', process.env.EXAM_ATTEMPTS_BIN);

/** Its `url`, `kill()`, `terminate()`, `start()`, `stop()`; while it is ended `sql(text)` changes its database. */
async function startExample(name, path) {
  const program = path ?? join(dirname(BINARY), name);
  const folder = await mkdtemp(join(tmpdir(), `sarsen-${name}-`));
  const file = join(folder, `${name}.db`);
  const listen = `127.0.0.1:${await freePort()}`;
  let child;
  let ended;

  async function start() {
    const args = ['--database', `sqlite:${file}`, '--listen', listen];
    child = spawn(program, args, { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] });
    ended = new Promise((resolve) => {
      child.once('error', resolve);
      child.once('exit', resolve);
    });
    const line = new Promise((resolve) => createInterface({ input: child.stdout }).once('line', resolve));
    const first = await Promise.race([line, ended]);
    assert.match(String(first), /http/, `${program} did not come up`);
  }

  async function end(signal) {
    child.kill(signal);
    await ended;
  }

  async function stop() {
    await end('SIGKILL');
    await rm(folder, { recursive: true, force: true });
  }

  /** Node.js has no SQLite in all versions that the tests run with. */
  function sql(text) {
    const script = 'import sqlite3, sys; base = sqlite3.connect(sys.argv[1]); base.executescript(sys.argv[2]); base.close()';
    const { status, stderr } = spawnSync('python3', ['-c', script, file, text], { encoding: 'utf8' });
    assert.equal(status, 0, stderr);
  }

  await start();
  return { url: `http://${listen}`, start, kill: () => end('SIGKILL'), terminate: () => end('SIGTERM'), stop, sql };
}
