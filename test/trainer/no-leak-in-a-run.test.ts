/**
 * Hunts leaks that would end a long run: tensors, blocks, open files or memory that each step leaves. A thousand real
 * steps of a tiny policy, in their own process. Not asserted: how much memory a running step takes, and how long it
 * takes.
 */

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import path from 'node:path';
import { expect, test } from 'vitest';

interface Held {
  readonly step: number;
  readonly tensors: number;
  readonly blocks: { readonly total: number; readonly used: number; readonly idle: number; readonly free: number };
  readonly files: number;
  readonly heap: number;
  readonly resident: number;
}

const MiB = 2 ** 20;

/** The heap for new objects and malloc's arenas have their final size from the start. */
const STEADY = {
  flags: ['--expose-gc', '--max-semi-space-size=4'],
  environment: { MALLOC_ARENA_MAX: '2', TF_NUM_INTRAOP_THREADS: '1' },
} as const;

test('a thousand steps of sampling and training leave nothing behind', { timeout: 600_000 }, async () => {
  const script = path.join(import.meta.dirname, 'fixtures/many-steps.ts');
  const { stdout } = await promisify(execFile)(process.execPath, [...STEADY.flags, script, '200', '1000'], {
    env: { ...process.env, ...STEADY.environment },
  });
  const [early, late] = JSON.parse(stdout) as Held[];
  if (process.env['LONGHAUL_TEST_LOG'] === '1') process.stdout.write(`${stdout}\n`);
  expect(late!.step).toBe(1000);
  expect(late!.tensors).toBe(early!.tensors);
  expect(late!.files).toBe(early!.files);
  for (const { blocks } of [early!, late!]) expect(blocks).toMatchObject({ used: 0, free: blocks.total - blocks.idle });
  expect(late!.heap - early!.heap).toBeLessThan(4 * MiB);
  expect(late!.resident - early!.resident).toBeLessThan(16 * MiB);
});
