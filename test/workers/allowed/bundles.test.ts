/** Hunts modules that a worker reads or runs although no operator of its machine allowed them. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { loadModulesAt } from '../../../activities/orchestrator/open-modules.ts';
import { bundleModules } from '../../../modules/bundle.ts';
import { allowBundle, guardModules } from '../../../workers/allowed/bundles.ts';

let dir: string;
let module: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-allowed-bundles-'));
  module = join(dir, 'mine.ts');
  writeFileSync(module, 'globalThis.n = 1;\n');
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const loaded = (paths: readonly string[], env: NodeJS.ProcessEnv = {}) =>
  loadModulesAt(paths, guardModules(join(dir, 'home'), env, dir)).then(
    () => 'runs',
    (error: Error) => error.message,
  );

it('a module that nobody allowed is not even read: its text could be in an error', async () => {
  writeFileSync(module, 'secret of another account');
  expect(await loaded([module])).toMatch(/^modules: ".*mine\.ts" cannot be used; it is not allowed here/);
});

it('a listed path runs as it is at that moment, and allows no other one', async () => {
  const other = join(dir, 'other.ts');
  writeFileSync(other, 'globalThis.n = 3;\n');
  const env = { LONGHAUL_MODULES: module };
  expect(await loaded([module], env)).toBe('runs');
  writeFileSync(module, 'globalThis.n = 2;\n');
  expect(await loaded([module], env)).toBe('runs');
  expect(await loaded([module, other], env)).toMatch(/other\.ts" cannot be used; it is not allowed here/);
});

it('a bundle that the command line allowed runs, and no other one of the same paths', async () => {
  allowBundle(join(dir, 'home'), await bundleModules([module]));
  expect(await loaded([module])).toBe('runs');
  writeFileSync(module, 'globalThis.n = 2;\n');
  expect(await loaded([module])).toMatch(/has changed since they were allowed/);
  allowBundle(join(dir, 'home'), await bundleModules([module]));
  expect(await loaded([module])).toBe('runs');
  writeFileSync(module, 'globalThis.n = 1;\n');
  expect(await loaded([module])).toBe('runs');
});
