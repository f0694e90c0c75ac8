/**
 * Hunts settings of a command that a running stack silently ignores: a user who sets gVisor must not get sandboxes
 * without it. The supervisor is real, its workers are the fixture's.
 */

import { afterEach, expect, test, vi } from 'vitest';
import { exitCodeOf } from '../../client/errors.ts';
import { lockHolder } from '../../scripts/setup/process-lock.mjs';
import { ensureStack } from '../../stack/ensure-stack.ts';
import { refuseOtherSettings, stackSettings, wantedRoles } from '../../stack/stack-settings.ts';
import { stackPaths } from '../../connection/stack-paths.ts';
import { readStackState, writeStackState } from '../../connection/stack-state.ts';
import { stopStack } from '../../stack/stop-stack.ts';
import { FixtureStack, supervisorProgram } from './fixtures/fixture-stack.ts';

let stack: FixtureStack | undefined;
afterEach(async () => {
  await stack?.end();
  stack = undefined;
});

const settings = (env: NodeJS.ProcessEnv) => stackSettings(env, '/here');
const has = (asked: NodeJS.ProcessEnv, running: NodeJS.ProcessEnv) =>
  refuseOtherSettings(settings(asked), settings(running), '/home');

test('values with the same meaning are equal, and a setting that is not set is never refused', () => {
  has({}, { LONGHAUL_SANDBOX: 'docker', LONGHAUL_DOCKER_RUNTIME: 'runsc' });
  has({ LONGHAUL_SANDBOX: 'auto', LONGHAUL_DOCKER_IMAGE: '' }, {});
  has({ LONGHAUL_ROLES: 'gpu, orchestrator' }, { LONGHAUL_ROLES: 'orchestrator,gpu' });
  has({ LONGHAUL_ROLES: 'gpu,reward,agent-run,init,orchestrator' }, {});
  has({ LONGHAUL_GPU_WORKERS: '2' }, { LONGHAUL_GPU_WORKERS: 'both, both' });
  has({ LONGHAUL_RETENTION: '1d' }, {});
  has({ LONGHAUL_RETENTION: '3d' }, { LONGHAUL_RETENTION: '72h' });
  has({ LONGHAUL_MODULE_PLACES: 'a::/b:a' }, { LONGHAUL_MODULE_PLACES: '/here/a:/b' });
});

test.each([
  [
    { LONGHAUL_DOCKER_RUNTIME: 'runsc' },
    {},
    'LONGHAUL_DOCKER_RUNTIME: "runsc" cannot be used; the stack in /home runs with none; run npx longhaul down first',
  ],
  [
    { LONGHAUL_SANDBOX: 'auto' },
    { LONGHAUL_SANDBOX: 'docker' },
    'LONGHAUL_SANDBOX: "auto" cannot be used; the stack in /home runs with "docker"',
  ],
  [{ LONGHAUL_WARM_SANDBOXES: '0' }, {}, 'runs with none'],
  [{ LONGHAUL_RETENTION: '2d' }, {}, 'LONGHAUL_RETENTION: "48h" cannot be used; the stack in /home runs with "24h"'],
  [{ LONGHAUL_ROLES: 'gpu' }, {}, 'runs with "orchestrator,init,agent-run,reward,gpu"'],
  [
    { LONGHAUL_MODULE_PLACES: 'a' },
    { LONGHAUL_MODULE_PLACES: 'b' },
    'LONGHAUL_MODULE_PLACES: "/here/a" cannot be used; the stack in /home runs with "/here/b"',
  ],
])('%j on a stack with %j is refused', (asked, running, message) => {
  expect(() => has(asked, running)).toThrow(message);
});

test('the variable whose modules all workers loaded is refused, with what takes its place', () => {
  expect(() => settings({ LONGHAUL_MODULES: 'a.ts' })).toThrow(
    /^LONGHAUL_MODULES: "a\.ts" cannot be used; unset it: name modules in the configuration/,
  );
});

test('a stack without recorded settings refuses every setting', () => {
  expect(() => refuseOtherSettings({ LONGHAUL_SANDBOX: 'auto' }, undefined, '/home')).toThrow(
    'was started by an earlier version',
  );
  refuseOtherSettings({}, undefined, '/home');
});

test('a role that is named twice is served once', () => {
  expect(wantedRoles({ LONGHAUL_ROLES: 'gpu,orchestrator, gpu' })).toEqual(['orchestrator', 'gpu']);
});

// Otherwise workers would fail at each start, and the command would report after minutes that the stack does not start.
test.each([
  { LONGHAUL_SANDBOX: 'podman' },
  { LONGHAUL_STORE: 'postgres://host/db' },
  { LONGHAUL_ROLES: 'chef' },
  { LONGHAUL_GPU_WORKERS: 'many' },
  { LONGHAUL_SLOTS_GPU: 'x' },
  { LONGHAUL_SLOTS_AGENT_RUN: '0' },
  { LONGHAUL_MAX_SANDBOXES: '-1' },
  { LONGHAUL_SANDBOX_TTL: '1.5' },
  { LONGHAUL_SANDBOX_TTL: '31536000' },
  { LONGHAUL_KV_CACHE_MIB: 'much' },
  { LONGHAUL_ADAPTERS_MIB: '0' },
  { LONGHAUL_VERSIONING: 'yes' },
  { LONGHAUL_RETENTION: '3' },
  { LONGHAUL_RETENTION: '0h' },
  { LONGHAUL_RETENTION: '30m' },
  { LONGHAUL_RETENTION: '999999d' },
])('%j is bad input', (env) => {
  const [field] = Object.keys(env);
  expect(() => settings(env)).toThrow(expect.objectContaining({ name: 'UserInputError', field }) as Error);
});

test('a stack that is up, or whose supervisor was killed, keeps what it was told, and refuses anything else', async () => {
  stack = new FixtureStack({ init: [] });
  const { home, env } = stack;
  const told = { LONGHAUL_SANDBOX: 'docker', LONGHAUL_WARM_SANDBOXES: '2' };
  const ensure = (over: NodeJS.ProcessEnv) =>
    ensureStack({ home, env: { ...env, ...over }, program: supervisorProgram });
  const refused = {
    field: 'LONGHAUL_DOCKER_RUNTIME',
    value: 'runsc',
    remedy: expect.stringContaining('npx longhaul down') as string,
  };
  await ensure(told);
  const { pid } = stack.process('init');
  for (const isUp of [true, false]) {
    if (!isUp) {
      process.kill(lockHolder(stackPaths(home).lock)?.pid ?? 0, 'SIGKILL');
      await vi.waitFor(() => expect(stack?.list.status).toBe('unsupervised'), { timeout: 120_000 });
    }
    const error: unknown = await ensure({ ...told, LONGHAUL_DOCKER_RUNTIME: 'runsc' }).catch(
      (thrown: unknown) => thrown,
    );
    expect(error).toMatchObject(refused);
    expect(exitCodeOf(error)).toBe(2);
    expect(stack.list.status).toBe(isUp ? 'up' : 'unsupervised');
    expect(await ensure({})).toMatchObject({ started: !isUp });
    expect(stack.list.settings).toMatchObject(told);
    expect(stack.process('init')).toMatchObject({ pid, state: 'ready' });
  }
  await stopStack({ home });
  expect(await ensure({ LONGHAUL_DOCKER_RUNTIME: 'runsc' })).toMatchObject({ started: true });
  expect(stack.list.settings).toEqual({ LONGHAUL_DOCKER_RUNTIME: 'runsc' });
});

test('workers that run with other settings than are on record are not taken over', async () => {
  stack = new FixtureStack({ init: [] });
  const { home, env } = stack;
  const ensure = () => ensureStack({ home, env, program: supervisorProgram });
  await ensure();
  const { pid } = stack.process('init');
  process.kill(lockHolder(stackPaths(home).lock)?.pid ?? 0, 'SIGKILL');
  await vi.waitFor(() => expect(stack?.list.status).toBe('unsupervised'), { timeout: 120_000 });
  const { state } = stackPaths(home);
  const known = readStackState(state);
  if (known !== undefined) writeStackState(state, { ...known, settings: { LONGHAUL_SANDBOX: 'docker' } });
  await ensure();
  expect(stack.process('init').pid).not.toBe(pid);
});
