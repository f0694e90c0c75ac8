/** Hunts a sandbox that is taken from a rollout that lives, and one that is kept for a rollout that was terminated. The server is real. */
import { expect, it } from 'vitest';
import type { NativeConnection } from '@temporalio/worker';
import { ownerLives } from '../../workers/owner-lives.ts';
import { useWorkflowWorld } from '../support/use-world.ts';

const world = useWorkflowWorld();
const input = { task: 't-train-0', policy: { dir: '/p', version: 1 } };
const asking = () =>
  ownerLives({ connection: world.now.client.connection as unknown as NativeConnection, namespace: 'default' });

it('an owner lives while its workflow runs, and is known to have ended when it was terminated', async () => {
  world.host = 'nowhere';
  const handle = await world.start('rollout', 'owner', input);
  await expect.poll(() => world.count('generate')).toBe(1);
  expect(await asking()('owner')).toBe(true);
  await handle.terminate();
  await expect.poll(() => asking()('owner')).toBe(false);
  world.host = 'test-host';
  const again = await world.start('rollout', 'owner', input);
  expect(await asking()('owner')).toBe(true);
  await again.result();
  expect(await asking()('owner')).toBe(false);
});

it('an owner lives for all that is known where nobody answers, or Temporal has never heard of it', async () => {
  expect(await asking()('never-heard-of')).toBe(true);
  const deaf = { withDeadline: () => Promise.reject(new Error('deadline exceeded')) } as unknown as NativeConnection;
  expect(await ownerLives({ connection: deaf, namespace: 'default' })('owner')).toBe(true);
});
