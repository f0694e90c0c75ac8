/** Hunts a process that is shown as ready and does nothing: a stopped, an ended, or a silent one. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, utimesSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { standingOf, startTimeOf } from '../../../scripts/setup/process-identity.mjs';
import { withServerAsked } from '../../../stack/processes/ask-server.ts';
import { stackPaths } from '../../../connection/stack-paths.ts';
import { readStackState, writeStackState } from '../../../connection/stack-state.ts';
import { FixtureStack } from '../fixtures/fixture-stack.ts';

const soon = { timeout: 60_000, interval: 50 };
const long = { ...soon, timeout: 120_000 };
let stack: FixtureStack;
afterEach(async () => stack.end());

const up = () => vi.waitFor(() => expect(stack.list.status).toBe('up'), long);
const pidOf = (name: string) => stack.process(name).pid ?? 0;

test('a worker and a supervisor that are stopped are shown so, with what lets them run, and as ready when they do', async () => {
  stack = new FixtureStack({ init: [], gpu: [] });
  const supervisor = stack.startSupervisor();
  await up();
  const pid = pidOf('gpu');
  process.kill(pid, 'SIGSTOP');
  await vi.waitFor(
    () =>
      expect(stack.process('gpu')).toMatchObject({
        pid,
        state: 'stopped',
        problem: `gpu is stopped by a signal or a debugger; to resume it: kill -CONT ${pid}`,
      }),
    soon,
  );
  expect(stack.process('init')).toMatchObject({ state: 'ready' });
  expect(stack.process('init')).not.toHaveProperty('problem');
  process.kill(pid, 'SIGCONT');
  await vi.waitFor(() => expect(stack.process('gpu').state).toBe('ready'), soon);
  process.kill(supervisor, 'SIGSTOP');
  await vi.waitFor(
    () =>
      expect(stack.list.problem).toBe(
        `the supervisor is stopped by a signal or a debugger, and restarts nothing; to resume it: kill -CONT ${supervisor}`,
      ),
    soon,
  );
  process.kill(supervisor, 'SIGCONT');
  await vi.waitFor(() => expect(stack.list.problem).toBeUndefined(), soon);
});

test('a worker that has not said for a minute that it works is silent', async () => {
  stack = new FixtureStack({ init: [], gpu: ['--silent'] });
  stack.startSupervisor();
  await up();
  const before = new Date(Date.now() - 120_000);
  for (const name of ['init', 'gpu']) utimesSync(join(stackPaths(stack.home).ready, `${name}.json`), before, before);
  await vi.waitFor(
    () => expect([stack.process('gpu').state, stack.process('init').state]).toEqual(['silent', 'ready']),
    soon,
  );
  expect(stack.process('gpu').problem).toMatch(
    /^gpu runs, but has not reported for \d+ s that it works: see .*gpu\.log; to restart it: kill \d+$/,
  );
});

test('a process that has ended, and that nobody has taken note of, does not run', async () => {
  stack = new FixtureStack({ init: [] });
  stack.startSupervisor();
  await up();
  const parent = spawn('bash', ['-c', 'sleep 60 & echo $!; exec sleep 120'], { stdio: ['ignore', 'pipe', 'ignore'] });
  try {
    const [said] = (await once(parent.stdout, 'data')) as [Buffer];
    const pid = Number(said.toString().trim().split('\n').at(-1));
    const identity = { pid, startTime: startTimeOf(pid) ?? '' };
    // Until it has become `sleep`, bash takes note of its children.
    const command = () => readFileSync(`/proc/${parent.pid}/comm`, 'utf8');
    await vi.waitFor(() => expect(command()).toBe('sleep\n'), soon);
    process.kill(pid, 'SIGKILL');
    await vi.waitFor(() => expect(standingOf(identity)).toBe('zombie'), soon);
    const { state } = stackPaths(stack.home);
    const known = readStackState(state)!;
    writeStackState(state, { ...known, processes: known.processes.map((one) => ({ ...one, process: identity })) });
    expect(stack.process('init')).toMatchObject({
      pid: null,
      state: 'zombie',
      problem: expect.stringContaining(`init (pid ${pid}) has ended`),
    });
    writeStackState(state, known);
  } finally {
    parent.kill('SIGKILL');
  }
});

test('a server that runs and answers nobody is silent', async () => {
  stack = new FixtureStack({});
  const deaf = createServer().listen(0, '127.0.0.1');
  await once(deaf, 'listening');
  const address = `127.0.0.1:${(deaf.address() as { port: number }).port}`;
  const process_ = {
    name: 'temporal',
    pid: 1,
    state: 'ready',
    restarts: 0,
    since: '',
    log: '/logs/temporal.log',
  } as const;
  const listed = { ...stack.list, status: 'up', address, namespace: 'default', processes: [process_] } as const;
  const [server] = (await withServerAsked(listed)).processes;
  expect(server).toMatchObject({
    state: 'silent',
    problem: expect.stringMatching(
      /^temporal runs, but does not answer at 127\.0\.0\.1:\d+ \(.*\): see \/logs\/temporal\.log$/,
    ),
  });
  deaf.close();
});
