/** The package as it is published: packed and installed from its tarball, or laid out as `npm install longhaul` leaves it. */

import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { packageRoot } from '../../scripts/setup/paths.mjs';

const run = promisify(execFile);

/** Hosts that no request may reach but the registry's: another download would fail here as it does behind a closed network. */
const CLOSED = {
  npm_config_disturl: 'http://127.0.0.1:1',
  npm_config_nodedir: '',
  npm_config_fund: 'false',
  npm_config_audit: 'false',
};

/** Returns the package's folder in `dir`. npm's cache serves what the set-up has fetched before. */
export async function packAndInstall(dir: string): Promise<string> {
  const out = join(dir, 'packed');
  mkdirSync(out);
  await run('npm', ['pack', '--silent', '--pack-destination', out], { cwd: packageRoot });
  const [tarball = ''] = readdirSync(out);
  const project = join(dir, 'project');
  mkdirSync(project);
  writeFileSync(join(project, 'package.json'), JSON.stringify({ name: 'somebodys', private: true, type: 'module' }));
  await run('npm', ['install', '--prefer-offline', join(out, tarball)], {
    cwd: project,
    env: { ...process.env, ...CLOSED },
  });
  return join(project, 'node_modules', 'longhaul');
}

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
  await run(process.execPath, [
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
