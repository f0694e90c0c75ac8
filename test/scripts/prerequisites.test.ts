/** Hunts a set-up that fails late, reports only one missing program at a time, or gives no remedy. */

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { prerequisites } from '../../scripts/setup/steps/prerequisites.mjs';
import { packageRoot } from '../../scripts/setup/paths.mjs';

test('this machine has all prerequisites', () => {
  expect(prerequisites().filter((one) => one.found === undefined)).toEqual([]);
});

test('a machine with nothing gets the whole list at once, each with one apt command, and exit code 3', () => {
  const cache = mkdtempSync(join(tmpdir(), 'longhaul-bare-'));
  try {
    const result = spawnSync(process.execPath, [join(packageRoot, 'scripts', 'setup.mjs')], {
      env: { PATH: cache, LONGHAUL_CACHE: cache },
      encoding: 'utf8',
    });
    expect(result.status).toBe(3);
    expect(result.stdout).toBe('');
    for (const name of ['npm', 'python3', 'python3-pip', 'g++', 'make', 'bubblewrap']) {
      expect(result.stderr).toContain(`sudo apt-get install -y ${name}\n`);
    }
  } finally {
    rmSync(cache, { recursive: true, force: true });
  }
});
