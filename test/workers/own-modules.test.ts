/** Hunts a module of one's own that waits for ever: a process that has nothing else to do must not end as if all were well. */

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { packageRoot } from '../../scripts/setup/paths.mjs';

test('a module that never loads is refused by name, in a process that waits for nothing else', () => {
  const dir = mkdtempSync(join(tmpdir(), 'longhaul modules-'));
  try {
    const waits = join(dir, 'waits for ever.mjs');
    writeFileSync(waits, 'await new Promise(() => undefined);\n');
    const loader = join(packageRoot, 'workers', 'own-modules.ts');
    const program = `import { loadOwnModules } from ${JSON.stringify(loader)};
      loadOwnModules([${JSON.stringify(waits)}], 'LONGHAUL_MODULES', 100).catch((error) => { console.log(error.message); process.exit(2); });`;
    const { status, stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8', timeout: 50_000 });
    expect(stdout).toContain(`LONGHAUL_MODULES: ${JSON.stringify(waits)} cannot be used; give modules that can be imported (Error: it did not load within 0.1 s)`);
    expect(status).toBe(2);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});
