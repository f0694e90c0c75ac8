/**
 * A copy of the checkout to be mutated: files as they are here, dependencies linked. Whatever happens in it, the
 * checkout and the cache of compiled workflows stay as they were.
 */

import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { cacheDirectory, packageRoot } from '../../scripts/setup/paths.mjs';

/** Made of the copy's own sources. */
const OWN_CACHES = new Set(['workflow-bundles', 'supervisor']);

export interface ScratchCopy {
  readonly root: string;
  readonly env: NodeJS.ProcessEnv;
  /** Ends what tests that failed have left running of this copy. */
  endLeftovers(): void;
  remove(): void;
}

function files(): string[] {
  const listed = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: packageRoot,
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  });
  return listed.split('\0').filter((name) => name !== '' && existsSync(join(packageRoot, name)));
}

/** Everything of the real cache by links, but what the copy must make itself. */
function linkCache(to: string): void {
  const from = cacheDirectory();
  mkdirSync(to);
  for (const name of existsSync(from) ? readdirSync(from) : [])
    if (!OWN_CACHES.has(name)) symlinkSync(join(from, name), join(to, name));
}

/** By command line: no other process knows the copy's path. */
function endProcessesOf(top: string): void {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/u.test(name) && Number(name) !== process.pid)) {
    try {
      if (readFileSync(join('/proc', pid, 'cmdline'), 'utf8').includes(top)) process.kill(Number(pid), 'SIGKILL');
    } catch {
      // It has ended meanwhile.
    }
  }
}

export function makeScratchCopy(): ScratchCopy {
  const top = mkdtempSync(join(tmpdir(), 'longhaul-mutations-'));
  const root = join(top, 'checkout');
  for (const name of files()) {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    copyFileSync(join(packageRoot, name), join(root, name));
  }
  symlinkSync(join(packageRoot, 'node_modules'), join(root, 'node_modules'));
  linkCache(join(top, 'cache'));
  return {
    root,
    env: { ...process.env, LONGHAUL_CACHE: join(top, 'cache') },
    endLeftovers: () => endProcessesOf(top),
    remove: () => rmSync(top, { recursive: true, force: true }),
  };
}
