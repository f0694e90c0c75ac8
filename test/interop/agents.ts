/**
 * Runs agents of other projects against the gateway, unchanged, from PyPI: agents.test.ts, with the packages that it
 * needs. `node test/interop/agents.ts [FOLDER]`: a folder with one of packages for each agent; else they are fetched once,
 * into the cache, some gigabyte.
 */

import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cacheDirectory, packageRoot } from '#setup/paths.mjs';

const AGENTS = {
  'mini-swe-agent': ['mini-swe-agent==2.4.6'],
  'openai-agents': ['openai-agents==0.24.0', 'openai==3.57.0'],
  smolagents: ['smolagents[openai]==1.26.0', 'openai==3.57.0'],
} as const;

/** The Python that bubblewrap's sandboxes see, which Debian's own is if it is there. */
const PYTHON = existsSync('/usr/bin/python3') ? '/usr/bin/python3' : 'python3';
const VERSION = 'import sys; print("%d.%d" % sys.version_info[:2])';

function fetched(): string {
  const folder = join(cacheDirectory(), 'interop', 'agents');
  const version = execFileSync(PYTHON, ['-c', VERSION]).toString().trim();
  for (const [name, packages] of Object.entries(AGENTS)) {
    const target = join(folder, name);
    const done = join(folder, `${name}-${packages.join('-').replaceAll(/[^\w.-]/gu, '')}-${version}`);
    if (existsSync(done)) continue;
    process.stdout.write(`fetching ${packages.join(' ')}\n`);
    rmSync(target, { recursive: true, force: true });
    mkdirSync(target, { recursive: true });
    const options = ['--target', target, '--python-version', version, '--only-binary=:all:'];
    execFileSync('python3', ['-m', 'pip', 'install', '-q', ...options, ...packages], { stdio: 'inherit' });
    writeFileSync(done, '');
  }
  return folder;
}

const folder = process.argv[2] ?? fetched();
const vitest = join(packageRoot, 'node_modules', 'vitest', 'vitest.mjs');
execFileSync(process.execPath, [vitest, 'run', join('test', 'interop', 'agents.test.ts')], {
  cwd: packageRoot,
  stdio: 'inherit',
  env: { ...process.env, LONGHAUL_INTEROP_AGENTS: folder },
});
