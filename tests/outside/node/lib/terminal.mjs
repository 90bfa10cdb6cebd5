// The command line as a person uses it: `sarsen login`, approved in a browser, then other commands, with the sign-in
// kept in a folder of its own.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { look, walk } from './browser.mjs';
import { BINARY } from './demo.mjs';

const LOGIN_LIMIT_MS = 30_000;

/** Signs a terminal in as `person`, who approves it in `page`; gives `run(...arguments)` and `leave()`. */
export async function signInTerminal(demo, page, person) {
  const home = await mkdtemp(join(tmpdir(), 'sarsen-terminal-'));
  const env = { ...process.env, HOME: home, XDG_CONFIG_HOME: join(home, 'config') };
  const login = spawn(BINARY, ['login', '--server', demo.issuer], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  const ended = new Promise((resolve) => login.once('exit', resolve));
  const codes = await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no code after ${LOGIN_LIMIT_MS} ms: ${said}`)), LOGIN_LIMIT_MS);
    const hear = (text) => {
      said += text;
      const address = said.match(/https?:\/\/\S+\/activate/)?.[0];
      const code = said.match(/\b[A-Z]{4}-[A-Z]{4}\b/)?.[0];
      if (!address || !code) return;
      clearTimeout(timer);
      resolve({ address, code });
    };
    login.stdout.setEncoding('utf8').on('data', hear);
    login.stderr.setEncoding('utf8').on('data', hear);
  });
  await page.goto(codes.address);
  const approved = async (at) => /device is signed in/i.test(await at.locator('body').innerText());
  await walk(page, { user: person, userCode: codes.code, done: approved });
  assert.equal(await ended, 0, `login ends well: ${said} ${await look(page)}`);

  const run = promisify(execFile);
  return {
    run: (...args) => run(BINARY, args, { env }),
    leave: () => rm(home, { recursive: true, force: true }),
  };
}
