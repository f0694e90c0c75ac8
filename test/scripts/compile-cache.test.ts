/**
 * Hunts a command line that compiles everything each time, or that keeps compiled modules outside of Longhaul's cache.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { packageRoot } from '../../scripts/setup/paths.mjs';

let dir = '';
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-compiled-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function help(env: NodeJS.ProcessEnv): void {
  const { NODE_COMPILE_CACHE: _, ...own } = process.env;
  execFileSync(process.execPath, [join(packageRoot, 'bin', 'longhaul.mjs'), '--help'], {
    env: { ...own, LONGHAUL_CACHE: join(dir, 'cache'), ...env },
  });
}

it("Node's compiled modules are kept in the cache", () => {
  help({});
  expect(readdirSync(join(dir, 'cache', 'compiled'))).not.toEqual([]);
});

it("the user's own compile cache has priority", () => {
  help({ NODE_COMPILE_CACHE: join(dir, 'own') });
  expect(readdirSync(join(dir, 'own'))).not.toEqual([]);
  expect(existsSync(join(dir, 'cache', 'compiled'))).toBe(false);
});
