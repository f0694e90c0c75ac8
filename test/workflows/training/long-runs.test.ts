/**
 * Hunts steering that is lost when a run continues in a new history. The server is real and suggests a new history
 * every few steps; the activities are scripted.
 */
import { WorkflowUpdateFailedError } from '@temporalio/client';
import { expect, it } from 'vitest';
import type { RunConfig } from '../../../protocol/run-config.ts';
import type { TrainStatus } from '../../../protocol/train-status.ts';
import { useWorkflowWorld } from '../../support/use-world.ts';

const world = useWorkflowWorld(['--dynamic-config-value=limit.historyCount.suggestContinueAsNew=60']);
const config = (run: string, steps: number) => ({
  run,
  policy: { base: '/p' },
  task: { name: 't', train: 10 },
  steps,
  batch: { tasks: 1, samples: 2 },
  evaluation: { tasks: 1, greedy: false },
  dispatcher: { type: 'bounded', maxParallelAgents: 4 },
});

it('every pause, resume and change around its new histories reaches it', async () => {
  const rates: number[] = [];
  let recorded = 0;
  world.script = {
    update: ({ algorithm }) => void rates.push(algorithm.learningRate),
    before: async (activity) => {
      if (activity !== 'recordStep') return;
      await world.now.client.workflow.getHandle('train/long').signal('pause');
      recorded += 1;
    },
  };
  const handle = await world.start('train', 'train/long', config('long', 9));
  for (let step = 1; step < 9; step += 1) {
    await expect.poll(() => recorded, { interval: 10 }).toBe(step);
    // Sent while the step's last activity returns, and the run may be between two histories.
    const changed = await handle.executeUpdate<RunConfig, [object]>('configure', {
      args: [{ learningRate: step / 1000 }],
    });
    expect(changed.algorithm.learningRate).toBe(step / 1000);
    await expect.poll(async () => (await handle.query<TrainStatus>('status')).step, { interval: 20 }).toBe(step);
    expect(await handle.query<TrainStatus>('status')).toMatchObject({ phase: 'paused', pauseAt: 'turn' });
    expect(rates.length).toBe(step);
    await handle.signal('resume');
  }
  await expect.poll(() => recorded, { interval: 10 }).toBe(9);
  await handle.signal('resume');
  expect(await handle.result()).toMatchObject({ steps: 9 });
  expect(rates).toEqual([1e-6, 0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.007, 0.008]);
  expect(world.count('recordChanges')).toBe(8);
  const last = (await handle.describe()).runId;
  expect(last).not.toBe(handle.firstExecutionRunId);
});

it('a change that cannot be used is refused with its reason, and leaves no trace', async () => {
  const handle = await world.start('train', 'train/refusing', config('refusing', 2));
  const error = await handle.executeUpdate('configure', { args: [{ learningRate: -1 }] }).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(WorkflowUpdateFailedError);
  expect(String((error as WorkflowUpdateFailedError).cause?.message)).toMatch(/learningRate: -1 cannot be used/);
  await handle.result();
  expect(world.count('recordChanges')).toBe(0);
});

it('a run that starts again from its records makes the recorded changes, each at its step', async () => {
  const rates: number[] = [];
  const change = { at: '2026-01-01T00:00:00.000Z', field: 'algorithm.learningRate', from: 1e-6 };
  world.script = {
    changes: () => [
      { ...change, step: 0, to: 0.1 },
      { ...change, step: 3, to: 0.3 },
      { ...change, step: 4, field: 'steps', from: 5, to: 6 },
    ],
    update: ({ algorithm }) => void rates.push(algorithm.learningRate),
  };
  const handle = await world.start('train', 'train/again', config('again', 5));
  expect(await handle.result()).toMatchObject({ steps: 6 });
  expect(rates).toEqual([0.1, 0.1, 0.1, 0.3, 0.3, 0.3]);
});
