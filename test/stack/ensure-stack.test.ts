/**
 * Hunts a stack that is wrongly reported as up or down. The Temporal server is real; the workers are the fixture's.
 */

import { Client, Connection } from '@temporalio/client';
import { execFileSync } from 'node:child_process';
import { afterEach, expect, test, vi } from 'vitest';
import { startTimeOf } from '../../scripts/setup/process-identity.mjs';
import { ensureStack } from '../../stack/ensure-stack.ts';
import { stopStack } from '../../stack/stop-stack.ts';
import { choosePort } from '../../stack/temporal-server/free-port.ts';
import { SEARCH_ATTRIBUTES } from '../../stack/temporal-server/search-attributes.ts';
import { FixtureStack, supervisorProgram } from './fixtures/fixture-stack.ts';

const soon = { timeout: 60_000, interval: 100 };
let stack: FixtureStack;
afterEach(async () => stack.end());

const ensure = (env: NodeJS.ProcessEnv = {}) =>
  ensureStack({ home: stack.home, env: { ...stack.env, ...env }, program: supervisorProgram });

test('the server keeps its address and what it knows through its own death, down and up', async () => {
  stack = new FixtureStack({ init: [] }, true);
  // Its own ports: another stack of this machine may take the default ports while this one is down.
  const ports = { temporal: await choosePort([]), ui: await choosePort([]) };
  stack.remember(ports);
  const [first, second] = await Promise.all([ensure(), ensure()]);
  expect(second).toEqual({ ...first, started: second.started });
  expect(first).toMatchObject({ address: `127.0.0.1:${ports.temporal}`, ui: `http://127.0.0.1:${ports.ui}` });
  expect(await ensure()).toMatchObject({ started: false, address: first.address });
  expect(stack.log('init')).toContain(`temporal at ${first.address}`);
  expect(await ensure({ TEMPORAL_ADDRESS: `localhost:${ports.temporal}` })).toMatchObject({
    started: false,
    address: first.address,
  });

  const connection = await Connection.connect({ address: first.address });
  const client = new Client({ connection });
  const present = await connection.operatorService.listSearchAttributes({ namespace: 'default' });
  expect(Object.keys(present.customAttributes ?? {})).toEqual(expect.arrayContaining(Object.keys(SEARCH_ATTRIBUTES)));
  await client.workflow.start('nobodyRunsThis', { taskQueue: 'none', workflowId: 'kept', args: [] });
  const described = () =>
    client.workflow
      .getHandle('kept')
      .describe()
      .then((found) => found.status.name);

  const server = stack.process('temporal').pid ?? 0;
  process.kill(server, 'SIGKILL');
  // More than once if another process has taken one of its ports meanwhile.
  const restarted = { state: 'ready', restarts: expect.toSatisfy((n: number) => n >= 1) as number };
  await vi.waitFor(() => expect(stack.process('temporal')).toMatchObject(restarted), soon);
  expect(startTimeOf(server)).toBeUndefined();
  await vi.waitFor(async () => expect(await described()).toBe('RUNNING'), soon);

  await stopStack({ home: stack.home });
  await expect(ensure()).resolves.toMatchObject({ started: true, address: first.address, ui: first.ui });
  await vi.waitFor(async () => expect(await described()).toBe('RUNNING'), soon);
  await connection.close();
});

test('a worker that does not start is named with what it said, and nothing is left running', async () => {
  stack = new FixtureStack({ init: [], gpu: ['--dies'] }, true);
  await expect(ensure()).rejects.toMatchObject({
    name: 'Unreachable',
    // Once, however often it was started.
    message: expect.stringMatching(
      /^[^]*gpu does not start((?!a reason to die)[^])*this worker has a reason to die((?!a reason to die)[^])*$/,
    ),
  });
  expect(stack.list).toMatchObject({ status: 'down', processes: [] });
});

test('a worker that never becomes ready is named when the time is over', async () => {
  stack = new FixtureStack({ 'agent-run': ['--never-ready'] });
  const late = ensureStack({ home: stack.home, env: stack.env, program: supervisorProgram, timeoutMs: 8_000 });
  await expect(late).rejects.toThrow('agent-run is not ready');
  expect(stack.list.status).toBe('down');
});

test('a supervisor that is too slow to be found is not left behind', async () => {
  stack = new FixtureStack({ init: [] });
  const late = ensureStack({ home: stack.home, env: stack.env, program: supervisorProgram, timeoutMs: 0 });
  await expect(late).rejects.toThrow('is not ready');
  const running = execFileSync('ps', ['-eo', 'args'], { encoding: 'utf8' });
  expect(running).not.toContain(stack.home);
});

test('a cluster that is named and does not answer is an error that says what to do, and starts nothing', async () => {
  stack = new FixtureStack({ init: [] });
  const env = { ...stack.env, TEMPORAL_ADDRESS: '127.0.0.1:1' };
  await expect(ensureStack({ home: stack.home, env, program: supervisorProgram })).rejects.toMatchObject({
    name: 'Unreachable',
    message: expect.stringContaining('127.0.0.1:1'),
    remedy: expect.stringContaining('TEMPORAL_ADDRESS'),
  });
  expect(stack.list.status).toBe('down');
});

test('a supervisor that cannot even begin is an error with the end of its log', async () => {
  stack = new FixtureStack({ init: [] });
  const broken = ensureStack({
    home: stack.home,
    env: { ...stack.env, FIXTURE_WORKERS: 'no JSON' },
    program: supervisorProgram,
  });
  await expect(broken).rejects.toThrow(/supervisor ended[^]*no JSON/);
});

test('a Docker daemon of another machine is refused before anything is started, where Docker is asked for', async () => {
  stack = new FixtureStack({ init: [] }, true);
  const env = { ...stack.env, LONGHAUL_SANDBOX: 'docker', DOCKER_HOST: 'tcp://192.0.2.7:2375' };
  await expect(ensureStack({ home: stack.home, env, program: supervisorProgram })).rejects.toMatchObject({
    name: 'UserInputError',
    field: 'DOCKER_HOST',
    value: 'tcp://192.0.2.7:2375',
    message: expect.stringMatching(/it is another machine.*LONGHAUL_SANDBOX=bubblewrap/),
  });
  expect(stack.list).toMatchObject({ status: 'down', processes: [] });
});
