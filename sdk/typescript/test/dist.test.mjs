// dist/ is checked in, so that programs can embed the client without npm. It is what the sources compile to.

import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { build } from '../build.mjs';

const DIST = fileURLToPath(new URL('../dist', import.meta.url));

function contents(folder) {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files.map((file) => [file.name, readFileSync(join(file.parentPath ?? file.path, file.name), 'utf8')]).sort();
}

test('dist/ is current', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sarsen-client-dist-'));
  t.after(() => rmSync(folder, { recursive: true }));
  build(folder);
  assert.deepEqual(contents(DIST), contents(folder), 'run `npm run build` in sdk/typescript');
});
