/** Hunts sandboxes that are taken from a rollout whose turn nobody samples, and such as are kept that no rollout needs. The server is real. */
import { expect, it } from 'vitest';
import type { NativeConnection } from '@temporalio/worker';
import { ownerWaits } from '../../workers/owner-waits.ts';
import { useWorkflowWorld } from '../support/use-world.ts';

const world = useWorkflowWorld();
const input = { task: 't-train-0', policy: { dir: '/p', version: 1 } };
const asking = () =>
  ownerWaits({ connection: world.now.client.connection as unknown as NativeConnection, namespace: 'default' });

it('a rollout waits for its turn to be sampled or acted, not for a sandbox, nor for nothing', async () => {
  const waits: Record<string, boolean> = {};
  world.script = {
    before: async (activity, { rollout = '' }) => {
      if (!rollout.startsWith('owner')) return;
      // Its answer is not on the server while it runs.
      waits[activity] = await asking()(rollout);
    },
  };
  const handle = await world.start('rollout', 'owner', input);
  await handle.result();
  expect(waits).toMatchObject({ prepareSandbox: false, generate: true, agentRun: true, computeReward: false });
  expect(await asking()('owner')).toBe(false);
});

it('a rollout whose calls nobody takes waits for as long as that lasts; one that was terminated does not', async () => {
  world.host = 'nowhere';
  const handle = await world.start('rollout', 'nobody', input);
  await expect.poll(() => asking()('nobody')).toBe(true);
  await handle.terminate();
  await expect.poll(() => asking()('nobody')).toBe(false);
});

it('nobody waits of whom Temporal has never heard, and everybody does while it answers nobody', async () => {
  expect(await asking()('never-heard-of')).toBe(false);
  const deaf = { withDeadline: () => Promise.reject(new Error('deadline exceeded')) } as unknown as NativeConnection;
  expect(await ownerWaits({ connection: deaf, namespace: 'default' })('owner')).toBe(true);
});
