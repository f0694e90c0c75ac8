/**
 * Hunts a sandbox that is taken from a rollout that lives, or whose turn nobody samples, and one that is kept for a rollout
 * that was terminated, or needs none. The server is real.
 */
import { expect, it } from 'vitest';
import type { NativeConnection } from '@temporalio/worker';
import { ownerLives, ownerWaits } from '../../workers/lease-owner.ts';
import { useWorkflowWorld } from '../support/use-world.ts';

const world = useWorkflowWorld();
const input = { task: 't-train-0', policy: { dir: '/p', version: 1 } };
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

it('an owner lives for all that is known where nobody answers, or Temporal has never heard of it', async () => {
  expect(await living()('never-heard-of')).toBe(true);
  const deaf = { withDeadline: () => Promise.reject(new Error('deadline exceeded')) } as unknown as NativeConnection;
  expect(await ownerLives({ connection: deaf, namespace: 'default' })('owner')).toBe(true);
});

it('a rollout waits for its turn to be sampled or acted, not for a sandbox, nor for nothing', async () => {
  const waits: Record<string, boolean> = {};
  world.script = {
    before: async (activity, { rollout = '' }) => {
      if (!rollout.startsWith('owner')) return;
      // Its answer is not on the server while it runs.
      waits[activity] = await waiting()(rollout);
    },
  };
  const handle = await world.start('rollout', 'owner', input);
  await handle.result();
  expect(waits).toMatchObject({ prepareSandbox: false, generate: true, agentRun: true, computeReward: false });
  expect(await waiting()('owner')).toBe(false);
});

it('a rollout whose calls nobody takes waits for as long as that lasts; one that was terminated does not', async () => {
  world.host = 'nowhere';
  const handle = await world.start('rollout', 'nobody', input);
  await expect.poll(() => waiting()('nobody')).toBe(true);
  await handle.terminate();
  await expect.poll(() => waiting()('nobody')).toBe(false);
});

it('nobody waits of whom Temporal has never heard, and everybody does while it answers nobody', async () => {
  expect(await waiting()('never-heard-of')).toBe(false);
  const deaf = { withDeadline: () => Promise.reject(new Error('deadline exceeded')) } as unknown as NativeConnection;
  expect(await ownerWaits({ connection: deaf, namespace: 'default' })('owner')).toBe(true);
});
