/** The package as it is published: `npm pack` of this checkout, and `npm install` of the tarball in a folder of its own. */

import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
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
