/**
 * Hunts a user's module that waits forever: an otherwise idle process must not end with success; a module that was
 * saved, half-written, while its stack runs; and two modules that define the same name, of which one would silently
 * replace the other.
 */

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { packageRoot } from '../../scripts/setup/paths.mjs';
import { DIGESTS_VARIABLE, keepModules, moduleDigests } from '../../workers/allowed/modules.ts';

test('a module that never loads is refused by name, in an otherwise idle process', () => {
  const dir = mkdtempSync(join(tmpdir(), 'longhaul modules-'));
  try {
    const waits = join(dir, 'waits for ever.mjs');
    writeFileSync(waits, 'await new Promise(() => undefined);\n');
    const loader = join(packageRoot, 'workers', 'own-modules.ts');
    const program = `import { loadOwnModules } from ${JSON.stringify(loader)};
      loadOwnModules([${JSON.stringify(waits)}], 'LONGHAUL_MODULES', 100).catch((error) => { console.log(error.message); process.exit(2); });`;
    const { status, stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      encoding: 'utf8',
      timeout: 50_000,
    });
    expect(stdout).toContain(
      `LONGHAUL_MODULES: ${JSON.stringify(waits)} cannot be used; give modules that can be imported (Error: it did not load within 0.1 s)`,
    );
    expect(status).toBe(2);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});

test('a worker loads the module that the stack was started with, whatever became of its file, and what it imports from beside it', () => {
  const dir = mkdtempSync(join(tmpdir(), 'longhaul modules-'));
  try {
    const [home, module, algorithm] = [join(dir, '.longhaul'), join(dir, 'own.ts'), join(dir, 'loss.ts')];
    writeFileSync(join(dir, 'helper.ts'), "export const word: string = 'as it was';\n");
    writeFileSync(module, "import { word } from './helper.ts';\nconsole.log(word);\n");
    writeFileSync(algorithm, `import { defineLoss } from 'longhaul';\n${DEFINITIONS.loss};\n`);
    const paths = [module, algorithm];
    const env = { [DIGESTS_VARIABLE]: moduleDigests(paths) };
    keepModules(home, env);
    const program = `import { loadOwnModules } from ${JSON.stringify(join(packageRoot, 'workers', 'own-modules.ts'))};
      import { readAsStarted } from ${JSON.stringify(join(packageRoot, 'workers', 'allowed', 'modules.ts'))};
      import { namesOfModule } from ${JSON.stringify(join(packageRoot, 'trainer', 'algorithms', 'own-module.ts'))};
      readAsStarted(${JSON.stringify(home)}, ${JSON.stringify(paths)}, 'LONGHAUL_MODULES');
      await loadOwnModules(${JSON.stringify(paths)});
      console.log((await namesOfModule(${JSON.stringify(algorithm)})).loss.includes('twice'));`;
    // A thread takes this process's arguments, which include a program.
    writeFileSync(join(dir, 'worker.mjs'), program);
    const load = () =>
      spawnSync(process.execPath, [join(dir, 'worker.mjs')], {
        encoding: 'utf8',
        timeout: 50_000,
        env: { ...process.env, ...env },
      });
    for (const path of paths) writeFileSync(path, "throw new Error('half-written');\n");
    expect(load()).toMatchObject({ stdout: 'as it was\ntrue\n', status: 0 });
    for (const path of paths) rmSync(path);
    expect(load()).toMatchObject({ stdout: 'as it was\ntrue\n', status: 0 });
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});

const DEFINITIONS = {
  environment: "defineEnvironment({ name: 'twice', open: () => ({}) })",
  tool: "defineTool({ name: 'twice', description: 'does nothing', parameters: {}, required: [], run: () => '' })",
  loss: "defineLoss('twice', { correctable: true, terms: () => undefined })",
  advantage: "defineAdvantage('twice', { over: 'group', estimate: (rewards) => rewards })",
};

test('a second module that defines a name is refused with both modules, whatever it is that they define', () => {
  const dir = mkdtempSync(join(tmpdir(), 'longhaul modules-'));
  try {
    const importing = `import { defineEnvironment, defineTool, defineLoss, defineAdvantage } from 'longhaul';\n`;
    const [first, twice] = [join(dir, 'first.mjs'), join(dir, 'twice.mjs')];
    writeFileSync(first, `await null;\n${importing}${Object.values(DEFINITIONS).join(';\n')};\n`);
    const seconds = Object.entries(DEFINITIONS).map(([kind, definition]) => {
      writeFileSync(join(dir, `${kind}.mjs`), `${importing}${definition};\n`);
      return join(dir, `${kind}.mjs`);
    });
    writeFileSync(twice, `${importing}${[1, 2].map(() => DEFINITIONS.loss.replace('twice', 'once')).join(';\n')};\n`);
    const loader = join(packageRoot, 'workers', 'own-modules.ts');
    const program = `import { loadOwnModules } from ${JSON.stringify(loader)};
      const [first, ...others] = ${JSON.stringify([first, ...seconds, twice])};
      await loadOwnModules([first]);
      for (const other of others) await loadOwnModules([other]).catch((error) => { console.log(error.message); });`;
    const { stdout, stderr } = spawnSync(
      process.execPath,
      ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', program],
      { encoding: 'utf8', timeout: 50_000 },
    );
    expect(stderr).toBe('');
    const refused = (path: string, what: string, whose: string) =>
      `LONGHAUL_MODULES: ${JSON.stringify(path)} cannot be used; give modules that can be imported (NameTaken: ${what} is already defined, by ${whose}: give another name; a process keeps what it has loaded until it restarts)`;
    expect(stdout.trim().split('\n')).toEqual([
      ...Object.keys(DEFINITIONS).map((kind, i) =>
        refused(seconds[i]!, `${kind} twice`, `${first}, and ${seconds[i]} defines it too`),
      ),
      refused(twice, 'loss once', `${twice} itself`),
    ]);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});
