/**
 * Runs agents of other projects against the gateway, unchanged, from PyPI and npm: agents.test.ts, with the packages
 * that it needs. `node test/interop/agents.ts [FOLDER]`: a folder with one of packages for each agent; else they are
 * fetched once, into the cache, some three gigabytes.
 */

import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cacheDirectory, packageRoot } from '#setup/paths.mjs';

/** The Node that an agent of npm runs with: the one that Longhaul itself brings. */
const NODE = `node-linux-${process.arch}`;
const { optionalDependencies } = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as {
  readonly optionalDependencies: Readonly<Record<string, string>>;
};

/** Their packages, by the name of their folder. */
const OF_PIP: Readonly<Record<string, readonly string[]>> = {
  'mini-swe-agent': ['mini-swe-agent==2.4.6'],
  'openai-agents': ['openai-agents==0.24.0', 'openai==3.57.0'],
  smolagents: ['smolagents[openai]==1.26.0', 'openai==3.57.0'],
  aider: ['aider-chat==0.86.2'],
};
const OF_NPM: Readonly<Record<string, readonly string[]>> = {
  codex: ['@openai/codex@0.169.0'],
  'qwen-code': ['@qwen-code/qwen-code@0.24.4'],
  opencode: ['opencode-ai@1.18.33'],
};

/** The Python that bubblewrap's sandboxes see, which Debian's own is if it is there. */
const PYTHON = existsSync('/usr/bin/python3') ? '/usr/bin/python3' : 'python3';
const VERSION = 'import sys; print("%d.%d" % sys.version_info[:2])';

/** Calls `install` for a new folder, unless these packages are there. */
function once(folder: string, name: string, packages: readonly string[], install: (target: string) => void): void {
  const target = join(folder, name);
  const done = join(folder, `${name}-${packages.join('-').replaceAll(/[^\w.-]/gu, '')}`);
  if (existsSync(done)) return;
  process.stdout.write(`fetching ${packages.join(' ')}\n`);
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  install(target);
  writeFileSync(done, '');
}

function fetched(): string {
  const folder = join(cacheDirectory(), 'interop', 'agents');
  const version = execFileSync(PYTHON, ['-c', VERSION]).toString().trim();
  for (const [name, packages] of Object.entries(OF_PIP))
    once(folder, name, [...packages, version], (target) => {
      const options = ['--target', target, '--python-version', version, '--only-binary=:all:'];
      execFileSync('python3', ['-m', 'pip', 'install', '-q', ...options, ...packages], { stdio: 'inherit' });
    });
  for (const [name, own] of Object.entries(OF_NPM)) {
    const packages = [...own, `${NODE}@${optionalDependencies[NODE] ?? 'latest'}`];
    once(folder, name, packages, (target) => {
      const options = ['--prefix', target, '--no-save', '--ignore-scripts', '--no-audit', '--no-fund'];
      execFileSync('npm', ['install', ...options, ...packages], { stdio: 'inherit' });
    });
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
