// The modules of the client one by one, compiled anew, for tests of their insides.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { compile } from '../../build.mjs';

const folder = mkdtempSync(join(tmpdir(), 'sarsen-client-modules-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
compile(folder, join(folder, 'types'));
writeFileSync(join(folder, 'package.json'), '{"type":"module"}');

/** Imports `src/<name>.ts`. */
export const load = (name) => import(pathToFileURL(join(folder, `${name}.js`)));
