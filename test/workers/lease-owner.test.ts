/**
 * Hunts a sandbox that is taken from a live rollout, for example one whose turn no worker samples, and a sandbox that
 * is kept for a rollout that was terminated or needs none. The server is real.
 */
import { expect, it } from 'vitest';
import type { NativeConnection } from '@temporalio/worker';
import { ownerLives, ownerWaits } from '../../workers/lease-owner.ts';
import { useWorkflowWorld } from '../support/use-world.ts';

const world = useWorkflowWorld();
const input = { task: 't-train-0', policy: { uri: 'file:///p', version: 1 } };
const place = () => ({ connection: world.now.client.connection as unknown as NativeConnection, namespace: 'default' });
const living = () => ownerLives(place());
const waiting = () => ownerWaits(place());

it('an owner lives while its workflow runs, and is known to have ended when it was terminated', async () => {
  world.host = 'nowhere';
  const handle = await world.start('rollout', 'owner', input);
  await expect.poll(() => world.count('generate')).toBe(1);
  expect(await living()('owner')).toBe(true);
  await handle.terminate();
  await expect.poll(() => living()('owner')).toBe(false);
  world.host = 'test-host';
  const again = await world.start('rollout', 'owner', input);
  expect(await living()('owner')).toBe(true);
  await again.result();
  expect(await living()('owner')).toBe(false);
});

it('an owner counts as alive if Temporal does not answer, or does not know it', async () => {
  expect(await living()('never-heard-of')).toBe(true);
  const deaf = { withDeadline: () => Promise.reject(new Error('deadline exceeded')) } as unknown as NativeConnection;
  expect(await ownerLives({ connection: deaf, namespace: 'default' })('owner')).toBe(true);
});

it('a rollout that waits for sampling or tools needs its sandbox; one that waits for a sandbox, or for nothing, does not', async () => {
  const waits: Record<string, boolean> = {};
  world.script = {
    before: async (activity, { rollout = '' }) => {
      if (!rollout.startsWith('owner')) return;
      // The server does not have its result while it runs.
      waits[activity] = await waiting()(rollout);
    },
  };
  const handle = await world.start('rollout', 'owner', input);
  await handle.result();
  expect(waits).toMatchObject({ prepare: false, generate: true, agentRun: true, computeReward: false });
  expect(await waiting()('owner')).toBe(false);
});

it('a rollout whose activities no worker takes waits; one that was terminated does not', async () => {
  world.host = 'nowhere';
  const handle = await world.start('rollout', 'nobody', input);
  await expect.poll(() => waiting()('nobody')).toBe(true);
  await handle.terminate();
  await expect.poll(() => waiting()('nobody')).toBe(false);
});

it('a rollout that was terminated before a worker took its first task does not wait', async () => {
  const handle = await world.now.client.workflow.start('rollout', {
    taskQueue: 'nobody-polls',
    workflowId: 'untaken',
    args: [input],
  });
  expect(await waiting()('untaken')).toBe(true);
  await handle.terminate();
  expect(await living()('untaken')).toBe(false);
  expect(await waiting()('untaken')).toBe(false);
});

it('an owner that Temporal does not know does not wait; while Temporal does not answer, every owner does', async () => {
  expect(await waiting()('never-heard-of')).toBe(false);
  const deaf = { withDeadline: () => Promise.reject(new Error('deadline exceeded')) } as unknown as NativeConnection;
  expect(await ownerWaits({ connection: deaf, namespace: 'default' })('owner')).toBe(true);
});
