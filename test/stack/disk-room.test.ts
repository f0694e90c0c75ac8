/**
 * Hunts a full disk that is reported as a server without an answer, as a ready stack, or not at all. Disks are real and
 * small; mounting them needs root.
 */

import { someTasks } from '../support/some-tasks.ts';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { RunRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { awayLine } from '../../cli/connect/troubles.ts';
import { runCommandLine } from '../../cli/run.ts';
import { ownIdentity } from '../../scripts/setup/process-identity.mjs';
import { recordEndOfRun } from '../../reports/run-end.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import { diskTroubles, DiskUnusable, NEEDED_BYTES, runPlaces, stackPlaces } from '../../stack/disk-room.ts';
import { ensureStack } from '../../stack/ensure-stack.ts';
import { stackPaths } from '../../connection/stack-paths.ts';
import { writeStackState } from '../../connection/stack-state.ts';

let dir: string;
let disk: string;
const mount = (options: string) => execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', disk]);
const fill = () => writeFileSync(join(disk, 'filler'), Buffer.alloc(2 * NEEDED_BYTES - 2 ** 20));

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-room-'));
  disk = join(dir, 'disk');
  mkdirSync(disk);
});
afterEach(() => {
  vi.unstubAllEnvs();
  execFileSync('umount', ['-l', disk]);
  rmSync(dir, { recursive: true, force: true });
});

describe('a disk', () => {
  it('with room is no trouble, also where its folders are not made yet', () => {
    mount(`size=${2 * NEEDED_BYTES}`);
    expect(diskTroubles(stackPlaces(join(disk, 'not', 'yet')))).toEqual([]);
  });

  it('without room is told once, with what is kept there, what is free, what is needed and what helps', () => {
    mount(`size=${2 * NEEDED_BYTES}`);
    fill();
    const [trouble, ...others] = diskTroubles([
      ...stackPlaces(join(disk, 'home')),
      { what: 'the run folder', dir: join(disk, 'runs', 'r') },
    ]);
    expect(others).toEqual([]);
    expect(trouble).toEqual({
      kind: 'full',
      what: ['the store', "Temporal's database and logs", 'the run folder'],
      dir: disk,
      free: 2 ** 20,
      needed: NEEDED_BYTES,
      line: `No space is left at ${disk} (the store, Temporal's database and logs, the run folder): 1.0 MiB are free, and 16 MiB are required; free some there, or set LONGHAUL_HOME to a folder of another disk`,
    });
  });

  it('without inodes is told as that', () => {
    mount(`size=${2 * NEEDED_BYTES},nr_inodes=40`);
    expect(diskTroubles(stackPlaces(disk))).toMatchObject([
      {
        kind: 'no-files',
        free: 39,
        needed: 64,
        line: expect.stringMatching(
          /^No file can be created at .*: 39 inodes are free, and 64 are required; remove files there/,
        ) as string,
      },
    ]);
  });

  it('that can only be read is told as that', () => {
    mount(`size=${2 * NEEDED_BYTES}`);
    execFileSync('mount', ['-o', 'remount,ro', disk]);
    expect(diskTroubles(stackPlaces(disk))).toMatchObject([
      { kind: 'read-only', line: expect.stringMatching(/is read-only: mount it for writing/) as string },
    ]);
  });

  it('of the runs alone is told, by the folders that the store has on record', async () => {
    mount(`size=${2 * NEEDED_BYTES}`);
    const home = join(dir, 'home');
    const store = openSqliteStore(join(home, 'store'));
    for (const run of ['a', 'b']) await store.putOnce(keys.run(run), { run, runDir: join(disk, 'runs', run) });
    // A run that has ended needs no space, and a run whose disk is not mounted is not checked.
    await store.putOnce(keys.run('ended'), { run: 'ended', runDir: join(dir, 'ended', 'runs') });
    await recordEndOfRun('ended', { status: 'completed', finishedAt: '2026-01-01T00:00:00.000Z', message: '' }, store);
    mkdirSync(join(dir, 'ended'));
    await store.putOnce(keys.run('away'), { run: 'away', runDir: '/proc/away/runs/away' });
    await store.close();
    mkdirSync(join(disk, 'runs'));
    fill();
    expect(await runPlaces(home)).toEqual([{ what: 'run folders', dir: join(disk, 'runs') }]);
    expect(diskTroubles([...stackPlaces(home), ...(await runPlaces(home))])).toMatchObject([
      { kind: 'full', what: ['run folders'], dir: join(disk, 'runs') },
    ]);
  });
});

describe('on a full disk', () => {
  let deaf: Server;
  const said = `No space is left at`;

  /** A run in progress, a stack that is up, and a server that accepts calls and answers none. */
  beforeEach(async () => {
    mount(`size=${2 * NEEDED_BYTES}`);
    vi.stubEnv('LONGHAUL_HOME', disk);
    vi.stubEnv('TEMPORAL_ADDRESS', '');
    deaf = createServer(() => undefined).listen(0, '127.0.0.1');
    await once(deaf, 'listening');
    const port = (deaf.address() as { port: number }).port;
    const record = {
      name: 'temporal',
      process: ownIdentity(),
      state: 'ready',
      restarts: 0,
      failedStarts: 0,
      since: '',
      log: '/logs/temporal.log',
      digest: '',
    } as const;
    const state = {
      format: 1,
      supervisor: { pid: 0, startTime: '' },
      since: '',
      address: `127.0.0.1:${port}`,
      namespace: 'default',
      ui: '',
      ports: { temporal: port, ui: 0 },
      phase: 'up',
      processes: [record],
    } as const;
    writeStackState(stackPaths(disk).state, state);
    const store = openSqliteStore(join(disk, 'store'));
    const run = {
      run: 'r',
      runDir: join(disk, 'runs', 'r'),
      seed: 1,
      startedAt: '2026-01-01T00:00:00.000Z',
      policy: { base: '/p', parameters: 1, vocabulary: 1 },
      task: { name: 'swe-mini', train: 1, heldOut: 1 },
      tasks: someTasks,
    };
    await store.putOnce<RunRecord>(keys.run('r'), run);
    await store.close();
    mkdirSync(join(disk, 'runs'));
    fill();
  });
  afterEach(() => void deaf.close());

  async function call(...args: string[]) {
    let text = '';
    const write = (more: string) => void (text += more);
    const exitCode = await runCommandLine(args, {
      out: write,
      err: write,
      env: process.env,
      cwd: dir,
      signal: new AbortController().signal,
    });
    return { exitCode, text, first: text.split('\n')[0] ?? '' };
  }

  it('ps says so first, and calls no server ready that answers nobody', async () => {
    const { exitCode, text, first } = await call('ps');
    expect(first).toMatch(
      /^No space is left at .*store \(the store, Temporal's database and logs, run folders\): \d\.\d MiB are free, and 16 MiB are required/u,
    );
    expect([exitCode, /temporal .* ready/u.test(text), /temporal .* silent/u.test(text)]).toEqual([3, false, true]);
  });

  it('show says so first, shows what is on record, and does not wait for a server that answers nobody', async () => {
    const { exitCode, text, first } = await call('show', 'r');
    expect(first).toContain(said);
    expect(text).toMatch(/^r: running, started 2026-01-01/mu);
    expect(exitCode).toBe(3);
  });

  it('train, eval and up say so and start nothing', async () => {
    const policy = join(dir, 'policy');
    mkdirSync(policy);
    for (const name of ['config.json', 'tokenizer.json']) writeFileSync(join(policy, name), '{}');
    const run = join(dir, 'run.yaml');
    writeFileSync(run, JSON.stringify({ policy: { base: policy }, task: { name: 'swe-mini' }, steps: 1 }));
    const sweep = join(dir, 'eval.yaml');
    writeFileSync(sweep, JSON.stringify({ policies: [policy], tasks: { name: 'swe-mini' }, samples: 1 }));
    for (const args of [
      ['train', run],
      ['eval', sweep],
      ['up', '--detach'],
    ]) {
      const { exitCode, first } = await call(...args);
      expect([args[0], exitCode, first]).toEqual([args[0], 3, expect.stringContaining(said)]);
    }
    await expect(ensureStack({ home: disk })).rejects.toBeInstanceOf(DiskUnusable);
  });

  it('doctor says so first', async () => {
    const { exitCode, first, text } = await call('doctor');
    expect([exitCode, first]).toEqual([3, expect.stringContaining(said)]);
    expect(text).toMatch(/^MISSING {2}room on the disks/mu);
  });

  it('who follows a run is told so, not that the server does not answer', () => {
    expect(awayLine('Temporal does not answer')).toContain(said);
    rmSync(join(disk, 'filler'));
    expect(awayLine('Temporal does not answer')).toBe('Temporal does not answer');
  });
});
