/** A program's folder as `npm install longhaul` leaves it: the package as it is published, and what it depends on. */

import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { packageRoot } from '../../scripts/setup/paths.mjs';

/** Returns the package's folder below `dir`; its dependencies are those of this checkout. */
export async function installPackage(dir: string): Promise<string> {
  const modules = join(dir, 'node_modules');
  const own = join(modules, 'longhaul');
  mkdirSync(own, { recursive: true });
  for (const name of readdirSync(join(packageRoot, 'node_modules'))) {
    if (!name.startsWith('.') && name !== 'longhaul' && name !== '@tensorflow')
      symlinkSync(join(packageRoot, 'node_modules', name), join(modules, name));
  }
  // As its set-up would have left it in the cache.
  mkdirSync(join(own, 'node_modules'));
  symlinkSync(join(packageRoot, 'node_modules', '@tensorflow'), join(own, 'node_modules', '@tensorflow'));
  const { files } = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as { files: string[] };
  for (const file of ['package.json', ...files.filter((name) => name !== 'dist')]) {
    mkdirSync(dirname(join(own, file)), { recursive: true });
    cpSync(join(packageRoot, file), join(own, file), { recursive: true });
  }
  const tsc = join(packageRoot, 'node_modules', 'typescript', 'bin', 'tsc');
  // It is run, and not imported by what is checked: types cost two thirds of a build.
  await promisify(execFile)(process.execPath, [
    tsc,
    '-p',
    join(packageRoot, 'tsconfig.build.json'),
    '--outDir',
    join(own, 'dist'),
    '--noCheck',
    '--declaration',
    'false',
  ]);
  return own;
}
