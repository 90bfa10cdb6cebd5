// Compiles src/ and joins the modules into dist/sarsen-client.js, one file that a page can load; types go to
// dist/types. `node build.mjs [output folder]`. The result is checked in; a test compares it with the sources.

import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const HERE = dirname(fileURLToPath(import.meta.url));
/** Where the compiler is: installed here, or with the other tests of the repository. */
const COMPILERS = [HERE, join(HERE, '../../tests/outside')];
const HEAD = '// @sarsen/client, compiled from sdk/typescript/src by `npm run build`: do not edit.\n';

/** Compiles the modules into `out`, and their types into `types`. */
export function compile(out, types) {
  const [program, ...args] = tsc('--project', HERE, '--outDir', out, '--declarationDir', types);
  execFileSync(program, args, { stdio: 'inherit' });
}

/** The words of a command that runs the TypeScript compiler. */
export function tsc(...args) {
  const manifest = compiler();
  const { bin } = JSON.parse(readFileSync(manifest, 'utf8'));
  return [process.execPath, join(dirname(manifest), bin.tsc), ...args];
}

/** Makes what `dist` holds. */
export function build(out) {
  const compiled = mkdtempSync(join(tmpdir(), 'sarsen-client-'));
  try {
    const types = join(out, 'types');
    rmSync(types, { recursive: true, force: true });
    mkdirSync(types, { recursive: true });
    compile(compiled, types);
    writeFileSync(join(out, 'sarsen-client.js'), HEAD + joinModules(compiled));
  } finally {
    rmSync(compiled, { recursive: true });
  }
}

function compiler() {
  for (const folder of COMPILERS) {
    try {
      return createRequire(join(folder, 'package.json')).resolve('typescript/package.json');
    } catch {
      // Not here.
    }
  }
  throw new Error('There is no TypeScript compiler. Run `npm ci` in sdk/typescript.');
}

/** One module for all: each after those that it imports. Top-level names must differ between modules. */
function joinModules(folder) {
  const parts = [];
  const done = new Set();
  const owner = new Map();
  const visit = (file) => {
    if (done.has(file)) return;
    done.add(file);
    let text = readFileSync(join(folder, file), 'utf8');
    for (const [, other] of text.matchAll(/^(?:import|export) .*from '\.\/(.+)';$/gm)) visit(other);
    if (file === 'index.js') return;
    text = text.replaceAll(/^import .*\n/gm, '').replaceAll(/^export /gm, '');
    for (const [, name] of text.matchAll(/^(?:async )?(?:class|function\*?|const|let) (\w+)/gm)) {
      if (owner.has(name)) throw new Error(`${name} is in ${owner.get(name)} and in ${file}: rename one of them`);
      owner.set(name, file);
    }
    parts.push(text.trim());
  };
  visit('index.js');
  const index = readFileSync(join(folder, 'index.js'), 'utf8');
  const names = [...index.matchAll(/^export \{ (.+) \} from/gm)].flatMap(([, list]) => list.split(', '));
  return `${parts.join('\n')}\nexport { ${names.join(', ')} };\n`;
}

if (process.argv[1] && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  build(resolve(process.argv[2] ?? join(HERE, 'dist')));
}
