// A running Sarsen for a test file: starts `sarsen demo` on a folder of its own, reads the one line that it
// prints, stops it by its process id.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../../../../', import.meta.url));
export const BINARY = process.env.SARSEN_BIN ?? join(ROOT, 'target/debug/sarsen');
const START_LIMIT_MS = 60_000;
const STOP_LIMIT_MS = 15_000;

/** Starts the demo; what it printed, plus `user(name)`, `stop()`, `pause()`, `resume()` and `log()`. */
export async function startDemo() {
  const folder = await mkdtemp(join(tmpdir(), 'sarsen-outside-'));
  const args = ['demo', '--json', '--data', join(folder, 'data'), '--listen', '127.0.0.1:0'];
  const child = spawn(BINARY, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const log = [];
  child.stderr.setEncoding('utf8').on('data', (text) => log.push(text));
  const ended = new Promise((resolve) => {
    child.once('error', (error) => resolve(`it cannot be started: ${error.message}`));
    child.once('exit', (code, signal) => resolve(`it ended with ${signal ?? `exit code ${code}`}`));
  });

  async function stop() {
    child.kill('SIGTERM');
    const killer = setTimeout(() => child.kill('SIGKILL'), STOP_LIMIT_MS);
    await ended;
    clearTimeout(killer);
    await rm(folder, { recursive: true, force: true });
  }

  let timer;
  const line = await Promise.race([
    new Promise((resolve) => createInterface({ input: child.stdout }).once('line', resolve)),
    ended.then((why) => new Error(why)),
    new Promise((resolve) => {
      timer = setTimeout(() => resolve(new Error(`no line after ${START_LIMIT_MS} ms`)), START_LIMIT_MS);
    }),
  ]);
  clearTimeout(timer);
  if (line instanceof Error) {
    await stop();
    assert.fail(`\`${BINARY} ${args.join(' ')}\` did not come up: ${line.message}\n${log.join('')}`);
  }
  const demo = JSON.parse(line);
  const user = (name) => {
    const found = demo.users.find(({ email }) => email.startsWith(`${name}@`));
    return found ?? assert.fail(`the demo has no user ${name}: ${JSON.stringify(demo.users)}`);
  };
  const [pause, resume] = [() => child.kill('SIGSTOP'), () => child.kill('SIGCONT')];
  return { ...demo, user, stop, pause, resume, log: () => log.join('') };
}
