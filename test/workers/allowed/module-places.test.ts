/** Hunts modules that a worker reads or runs although no operator of its machine allowed them. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { loadModulesAt } from '../../../activities/orchestrator/open-modules.ts';
import { bundleModules } from '../../../modules/bundle.ts';
import { allowBundle, checkCodePlace, guardModules } from '../../../workers/allowed/module-places.ts';

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

it('a module of a listed folder runs as it is at that moment, and the folder allows no other one', async () => {
  const folder = join(dir, 'listed');
  mkdirSync(folder);
  const inside = join(folder, 'inside.ts');
  writeFileSync(inside, 'globalThis.n = 3;\n');
  const env = { LONGHAUL_MODULE_PLACES: folder };
  expect(await loaded([inside], env)).toBe('runs');
  writeFileSync(inside, 'globalThis.n = 2;\n');
  expect(await loaded([inside], env)).toBe('runs');
  expect(await loaded([inside, module], env)).toMatch(/mine\.ts" cannot be used; it is not allowed here/);
  symlinkSync(module, join(folder, 'link.ts'));
  expect(await loaded([join(folder, 'link.ts')], env)).toMatch(/link\.ts" cannot be used; it is not allowed here/);
  // Once allowed as it was, it is not allowed as it is, beside one that is listed.
  allowBundle(join(dir, 'home'), await bundleModules([module]));
  writeFileSync(module, 'globalThis.n = 4;\n');
  expect(await loaded([inside, module], env)).toMatch(/has changed since they were allowed/);
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

it('code of another language runs from listed folders alone; a virtual environment is where its folder is', () => {
  const [listed, other] = [join(dir, 'listed'), join(dir, 'other')];
  for (const folder of [join(listed, 'bin'), other]) mkdirSync(folder, { recursive: true });
  writeFileSync(join(other, 'python3.11'), '');
  symlinkSync(join(other, 'python3.11'), join(listed, 'bin', 'python'));
  symlinkSync(other, join(listed, 'linked'));
  const env = { LONGHAUL_MODULE_PLACES: listed };
  const check = (path: string, given: NodeJS.ProcessEnv = env) =>
    checkCodePlace('task.options.python', path, given, dir);
  expect(check(join(listed, 'bin', 'python'))).toBeUndefined();
  expect(check(listed)).toBeUndefined();
  const refused = /^task\.options\.python: ".*" cannot be used; the workers may not run code from there/u;
  for (const path of [
    join(other, 'python3.11'),
    other,
    join(listed, 'linked', 'python3.11'),
    join(listed, '..', 'other'),
  ])
    expect(() => check(path)).toThrow(refused);
  expect(() => check(join(listed, 'bin', 'python'), {})).toThrow(refused);
});
