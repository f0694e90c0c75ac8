/** Hunts a worker whose death is not noticed, one that is started twice, and one that cannot be stopped. */

import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { isAlive, startTimeOf } from '../../scripts/setup/process-identity.mjs';
import { stackPaths } from '../../connection/stack-paths.ts';
import { readStackState, writeStackState } from '../../connection/stack-state.ts';
import { stopStack } from '../../stack/stop-stack.ts';
import { FixtureStack } from './fixtures/fixture-stack.ts';

const soon = { timeout: 120_000, interval: 50 };
let stack: FixtureStack;
afterEach(async () => stack.end());

const readyPid = (name: string) =>
  vi.waitFor(() => {
    const one = stack.process(name);
    if (one.state !== 'ready' || one.pid === null) throw new Error(`${name} is ${one.state}`);
    return one.pid;
  }, soon);

const up = () => vi.waitFor(() => expect(stack.list.status).toBe('up'), soon);

test('a worker that is killed starts again, and the stack says so', async () => {
  stack = new FixtureStack({ init: [], gpu: [] });
  stack.startSupervisor();
  await up();
  const [before, other] = [await readyPid('gpu'), await readyPid('init')];
  process.kill(before, 'SIGKILL');
  const after = await vi.waitFor(() => {
    const one = stack.process('gpu');
    expect(one).toMatchObject({ state: 'ready', restarts: 1 });
    expect(one.pid).not.toBe(before);
    return one.pid;
  }, soon);
  expect(startTimeOf(after ?? 0)).toBeDefined();
  expect(stack.process('init')).toMatchObject({ pid: other, restarts: 0 });
});

test('killed itself, the supervisor leaves its workers running, and the next one takes them over', async () => {
  stack = new FixtureStack({ init: [], gpu: [] });
  const supervisor = stack.startSupervisor();
  await up();
  const pids = [await readyPid('init'), await readyPid('gpu')];
  process.kill(supervisor, 'SIGKILL');
  await vi.waitFor(() => expect(stack.list.status).toBe('unsupervised'), soon);
  expect(stack.list.ui).toBeNull();
  stack.startSupervisor({ init: [], gpu: ['--another'] });
  await up();
  expect(await readyPid('init')).toBe(pids[0]);
  // A worker that runs with other arguments than the plan's is replaced.
  expect(await readyPid('gpu')).not.toBe(pids[1]);
  expect(startTimeOf(pids[1] ?? 0)).toBeUndefined();
  // The death of an adopted worker, a child of another process, is noticed as well.
  process.kill(pids[0] ?? 0, 'SIGKILL');
  await vi.waitFor(() => expect(stack.process('init')).toMatchObject({ state: 'ready', restarts: 1 }), soon);
});

test('a second supervisor of the same home ends at once and disturbs nothing', async () => {
  stack = new FixtureStack({ init: [] });
  const first = stack.startSupervisor();
  await up();
  const second = stack.startSupervisor();
  await vi.waitFor(() => expect(startTimeOf(second)).toBeUndefined(), soon);
  expect(stack.list).toMatchObject({ status: 'up', supervisor: first });
});

test('down ends every process, with and without a supervisor, and is idempotent', async () => {
  stack = new FixtureStack({ init: [], reward: [] });
  const supervisor = stack.startSupervisor();
  await up();
  const pids = [await readyPid('init'), await readyPid('reward')];
  expect(await stopStack({ home: stack.home })).toEqual({ wasUp: true, stopped: ['init', 'reward'] });
  for (const pid of [...pids, supervisor]) expect(startTimeOf(pid)).toBeUndefined();
  expect(stack.list).toMatchObject({ status: 'down', processes: [] });
  expect(await stopStack({ home: stack.home })).toEqual({ wasUp: false, stopped: [] });

  const again = stack.startSupervisor();
  await up();
  const left = await readyPid('init');
  process.kill(again, 'SIGKILL');
  await vi.waitFor(() => expect(stack.list.status).toBe('unsupervised'), soon);
  expect((await stopStack({ home: stack.home })).stopped).toEqual(['init', 'reward']);
  expect(startTimeOf(left)).toBeUndefined();
});

test('a worker that is deaf to SIGTERM is killed after the deadline', async () => {
  stack = new FixtureStack({ init: ['--deaf'] });
  const supervisor = stack.startSupervisor();
  await up();
  const pid = await readyPid('init');
  process.kill(supervisor, 'SIGKILL');
  await vi.waitFor(() => expect(stack.list.status).toBe('unsupervised'), soon);
  await stopStack({ home: stack.home, deadlineMs: 200 });
  expect(startTimeOf(pid)).toBeUndefined();
});

test('a process that got the pid of a dead worker is neither adopted nor stopped', async () => {
  stack = new FixtureStack({ init: [] });
  const paths = stackPaths(stack.home);
  mkdirSync(dirname(paths.state), { recursive: true });
  const innocent = { pid: process.pid, startTime: 'the life of another process' };
  stack.startSupervisor();
  await up();
  await stopStack({ home: stack.home });
  const state = readStackState(paths.state);
  if (state === undefined) throw new Error('the stack left no state');
  const processes = state.processes.map((one) => ({ ...one, process: innocent, state: 'ready' as const }));
  writeStackState(paths.state, { ...state, processes });
  writeFileSync(paths.lock, JSON.stringify(innocent));
  expect(stack.list.status).toBe('down');
  expect((await stopStack({ home: stack.home })).wasUp).toBe(false);
  stack.startSupervisor();
  await up();
  expect(await readyPid('init')).not.toBe(process.pid);
  expect(isAlive({ pid: process.pid, startTime: startTimeOf(process.pid) ?? '' })).toBe(true);
});
