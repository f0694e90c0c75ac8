/**
 * Hunts batches that mask rollouts because those of a previous run still release their sandboxes under the same ids,
 * and endless waits for such an id.
 */
import fc from 'fast-check';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { PATIENCE_MS, pauseAfter } from '../../workflows/start-child-when-free.ts';
import type { BatchResult } from '../../protocol/batch.ts';
import { useWorkflowWorld } from '../support/use-world.ts';

const world = useWorkflowWorld();
const policy = { uri: 'file:///p', version: 3 };

it('a rollout whose id is still taken starts when it is free, and the others do not wait for it', async () => {
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  let old = true;
  world.script = {
    before: async (activity) => {
      if (old && activity === 'agentRun') {
        old = false;
        await held;
      }
    },
  };
  const before = await world.start('rollout', 'b/t-train-0/0', { task: 't-train-0', policy });
  await expect.poll(() => world.count('agentRun')).toBe(1);
  const batch = await world.start('batch', 'b', {
    run: 'r',
    name: 'b',
    step: 1,
    tasks: ['t-train-0', 't-train-1'],
    samples: 2,
    policy,
    agent: { maxTurns: 5, maxContextTokens: 1000, toolTimeoutSeconds: 10 },
    sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 10 },
    seed: 1,
    dispatcher: { type: 'batch' },
  });
  await expect.poll(() => world.count('computeReward')).toBe(3);
  await sleep(500);
  expect((await batch.describe()).status.name).toBe('RUNNING');
  release();
  await before.result();
  expect((await batch.result()) as BatchResult).toMatchObject({ rollouts: 4, graded: 4, failures: {} });
});

it('the pauses grow, and end before the patience does', () => {
  const pauses: number[] = [];
  for (let tries = 1, waited = 0; ; tries += 1) {
    const pause = pauseAfter(tries, waited);
    if (pause === undefined) break;
    pauses.push(pause);
    waited += pause;
  }
  expect(pauses).toEqual([...pauses].sort((a, b) => a - b));
  expect(pauses.reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(PATIENCE_MS);
  expect(pauses.length).toBeLessThan(12);
  fc.assert(
    fc.property(fc.nat(1000), fc.nat(2 * PATIENCE_MS), (tries, waited) => {
      const pause = pauseAfter(tries + 1, waited);
      expect(pause === undefined || (pause > 0 && waited + pause <= PATIENCE_MS)).toBe(true);
    }),
  );
});
