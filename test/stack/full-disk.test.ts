/**
 * Hunts a supervisor or a worker that ends on a full disk because a log line or the stack's state cannot be written:
 * then nothing restarts the workers when there is space again. Real disks; only as root.
 */

import { spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { packageRoot } from '../../scripts/setup/paths.mjs';
import { lockHolder } from '../../scripts/setup/process-lock.mjs';
import { ensureStack } from '../../stack/ensure-stack.ts';
import { stackPaths } from '../../connection/stack-paths.ts';
import { readLogLine } from '../../workers/logs/readable-log.ts';
import { useSmallDisk } from '../activities/small-disk.ts';
import { FixtureStack, supervisorProgram } from './fixtures/fixture-stack.ts';

const soon = { timeout: 60_000, interval: 50 };
let dir: string;
// Hooks run in reverse order: this one after the disk was removed.
afterEach(() => rmSync(dir, { recursive: true, force: true }));
const smallDisk = useSmallDisk();
let stack: FixtureStack | undefined;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-full-'));
});
afterEach(async () => {
  // Its home is a mount point, so the folder itself is busy.
  await stack?.end().catch(() => undefined);
  stack = undefined;
});

/** Writes until the disk is full, this many bytes at a time. */
function fillUp(path: string, flag: 'w' | 'a', bytes: number): void {
  const file = openSync(path, flag);
  try {
    for (;;) writeSync(file, Buffer.alloc(bytes, ' '));
  } catch {
    closeSync(file);
  }
}

/** Returns a function that frees the space again. */
function fill(disk: string): () => void {
  const path = join(disk, 'fill');
  fillUp(path, 'w', 4096);
  return () => rmSync(path);
}

test.runIf(process.getuid?.() === 0)(
  'the supervisor of a full disk goes on, and when there is room what died stands again',
  async () => {
    stack = new FixtureStack({ init: [], gpu: [] }, false, smallDisk(join(dir, 'home'), 2 ** 25));
    const { home, env } = stack;
    await ensureStack({ home, env, program: supervisorProgram });
    const { lock } = stackPaths(home);
    const supervisor = lockHolder(lock)?.pid;
    const { pid } = stack.process('init');
    const makeRoom = fill(home);
    fillUp(join(home, 'logs', 'supervisor.log'), 'a', 1);
    process.kill(pid ?? 0, 'SIGKILL');
    await vi.waitFor(() => expect(stack?.process('init').pid).toBeNull(), soon);
    // Long enough for several starts, none of which can report that it is ready.
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect(lockHolder(lock)?.pid).toBe(supervisor);
    makeRoom();
    await vi.waitFor(
      () => expect(stack?.process('init')).toMatchObject({ state: 'ready', pid: expect.any(Number) as number }),
      soon,
    );
    expect(stack.process('init').restarts).toBeGreaterThan(0);
    expect(stack.list).toMatchObject({ status: 'up', supervisor });
    expect(readdirSync(home).filter((name) => name.startsWith('stack.json.'))).toEqual([]);
  },
);

test('a start that fails before there is a process is tried again', async () => {
  stack = new FixtureStack({ init: [] }, false, join(dir, 'home'));
  const { home, env } = stack;
  await ensureStack({ home, env, program: supervisorProgram });
  const supervisor = lockHolder(stackPaths(home).lock)?.pid;
  const { ready } = stackPaths(home);
  rmSync(ready, { recursive: true });
  writeFileSync(ready, 'no folder');
  process.kill(stack.process('init').pid ?? 0, 'SIGKILL');
  await vi.waitFor(() => expect(stack?.log('supervisor')).toMatch(/init could not be started \(EEXIST/), soon);
  rmSync(ready);
  await vi.waitFor(
    () => expect(stack?.process('init')).toMatchObject({ state: 'ready', pid: expect.any(Number) as number }),
    soon,
  );
  expect(stack.list).toMatchObject({ status: 'up', supervisor });
});

test.runIf(process.getuid?.() === 0)('a worker whose log has no room goes on, and its lines are there later', () => {
  const disk = smallDisk(join(dir, 'logs'), 16_384);
  const log = join(disk, 'log');
  writeFileSync(log, '');
  fill(disk);
  const program = `
    import { rmSync } from 'node:fs';
    import { runRole } from ${JSON.stringify(join(packageRoot, 'workers', 'main.ts'))};
    import { openProcessLog } from ${JSON.stringify(join(packageRoot, 'workers', 'logs', 'process-log.ts'))};
    const log = openProcessLog('init');
    await runRole('nobody').catch(() => undefined);
    process.stderr.write('lost\\n');
    log.fatal('kept');
    await new Promise((resolve) => setTimeout(resolve, 50));
    rmSync(${JSON.stringify(join(disk, 'fill'))});
    process.stderr.write('there is room\\n');
    log.info('more');`;
  const descriptor = openSync(log, 'a');
  const { status } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', descriptor, descriptor],
    timeout: 50_000,
  });
  closeSync(descriptor);
  const lines = readFileSync(log, 'utf8').trimEnd().split('\n');
  expect([status, lines.map((line) => readLogLine(line)?.message ?? line)]).toEqual([
    0,
    ['there is room', 'kept', 'more'],
  ]);
});
