/** Hunts a `node_modules` that differs from the lock file and is accepted. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { differences } from '../../scripts/setup/steps/dependencies.mjs';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'longhaul-deps-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const lock = {
  packages: {
    '': { name: 'longhaul' },
    'node_modules/a': { version: '1.0.0', integrity: 'sha512-a' },
    'node_modules/b': { version: '2.0.0', integrity: 'sha512-b' },
    'node_modules/for-mac': { version: '3.0.0', integrity: 'sha512-m', optional: true, os: ['darwin'] },
  },
};

function install(packages: Record<string, unknown>): void {
  for (const path of Object.keys(packages)) mkdirSync(join(root, path), { recursive: true });
  mkdirSync(join(root, 'node_modules'), { recursive: true });
  writeFileSync(join(root, 'node_modules', '.package-lock.json'), JSON.stringify({ packages }));
}

const [a, b] = [lock.packages['node_modules/a'], lock.packages['node_modules/b']];

test('a locked installation has no differences, without the packages of other systems', () => {
  install({ 'node_modules/a': a, 'node_modules/b': b });
  expect(differences(root, lock)).toEqual([]);
});

test('an interrupted installation has no record, and all packages differ', () => {
  mkdirSync(join(root, 'node_modules', 'a'), { recursive: true });
  expect(differences(root, lock)).toEqual(['node_modules/a', 'node_modules/b']);
});

test('another version, another content, a surplus package and a missing folder are differences', () => {
  install({
    'node_modules/a': { ...a, version: '1.0.1' },
    'node_modules/b': { ...b, integrity: 'sha512-x' },
    'node_modules/c': a,
  });
  expect(differences(root, lock)).toEqual(['node_modules/a', 'node_modules/b', 'node_modules/c']);
  install({ 'node_modules/a': a, 'node_modules/b': b });
  rmSync(join(root, 'node_modules', 'b'), { recursive: true });
  expect(differences(root, lock)).toEqual(['node_modules/b']);
});
