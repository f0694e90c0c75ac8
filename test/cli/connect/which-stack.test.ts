/**
 * Hunts a verb that steers another stack's run: of two stacks one is down, and the other has taken its port. The server
 * is real.
 */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { runCommandLine } from '../../../cli/run.ts';
import { ownIdentity, type ProcessIdentity } from '../../../scripts/setup/process-identity.mjs';
import { stackPaths } from '../../../connection/stack-paths.ts';
import { type StackState, writeStackState } from '../../../connection/stack-state.ts';
import { clusterId } from '../../../stack/temporal-server/cluster-health.ts';
import { type PrivateServer, startPrivateServer } from '../../../stack/temporal-server/private-server.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul two stacks-'));
let server: PrivateServer;
let stackId: string;
beforeAll(async () => {
  server = await startPrivateServer(join(dir, 'temporal'));
  stackId = await clusterId({ address: server.address }, 10_000);
});
afterAll(async () => {
  await server?.stop();
  vi.unstubAllEnvs();
  rmSync(dir, { recursive: true, force: true });
});

/** A stack whose server had the port that another stack's server has now; `server` is its own server's process. */
function stackOf(home: string, process: ProcessIdentity): void {
  const port = Number(server.address.split(':')[1]);
  const record = {
    name: 'temporal',
    process,
    state: 'ready',
    restarts: 0,
    failedStarts: 0,
    since: '',
    log: '',
    digest: '',
  } as const;
  const state: StackState = {
    format: 1,
    supervisor: { pid: 0, startTime: '' },
    since: '',
    address: server.address,
    namespace: 'default',
    ui: '',
    ports: { temporal: port, ui: 0 },
    stackId,
    phase: 'up',
    processes: [record],
  };
  writeStackState(stackPaths(home).state, state);
}

async function schedules(home: string) {
  let out = '';
  const around = {
    out: (text: string) => {
      out += text;
    },
    err: () => undefined,
    cwd: dir,
    signal: new AbortController().signal,
  };
  const exitCode = await runCommandLine(['schedule', 'list', '--json'], {
    ...around,
    env: { LONGHAUL_HOME: home, TEMPORAL_ADDRESS: '' },
  });
  return { exitCode, said: JSON.parse(out) as unknown };
}

test('a verb does not connect to the old port of a stack that is down, but to that of one that is up', async () => {
  const [up, down] = [join(dir, 'up'), join(dir, 'down')];
  stackOf(up, ownIdentity());
  stackOf(down, { pid: ownIdentity().pid, startTime: 'gone' });
  expect((await schedules(up)).exitCode).toBe(0);
  const { exitCode, said } = await schedules(down);
  expect(exitCode).toBe(3);
  expect(said).toMatchObject({
    error: {
      name: 'Unreachable',
      message: expect.stringContaining(
        `The stack in ${down} is not up. Start the stack: npx longhaul up --detach. Or name a cluster`,
      ),
    },
  });
});

test("a verb in a folder without a stack steers no other stack, not even the one on Temporal's default port", async () => {
  const never = join(dir, 'never');
  const { exitCode, said } = await schedules(never);
  expect(exitCode).toBe(3);
  expect(said).toMatchObject({
    error: {
      message: expect.stringContaining(
        `The stack in ${never} is not up. Start the stack: npx longhaul up --detach. Or name a cluster`,
      ),
    },
  });
});

test("a profile of Temporal's that does not exist is refused by its variable", async () => {
  vi.stubEnv('TEMPORAL_PROFILE', 'nope');
  const around = { out: () => undefined, cwd: dir, signal: new AbortController().signal, env: process.env };
  for (const args of [['up', '--detach'], ['schedule', 'list'], ['doctor']]) {
    let err = '';
    const code = await runCommandLine(args, {
      ...around,
      err: (text) => {
        err += text;
      },
    });
    expect([code, err]).toEqual([
      2,
      expect.stringMatching(/^longhaul: TEMPORAL_PROFILE: "nope" cannot be used; .*nope.*\n$/),
    ]);
  }
});
