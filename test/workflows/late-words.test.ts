/**
 * Hunts signals and failures that reach a workflow too early or too late: a circuit that opens before the run has
 * started, a cancellation while its end is recorded, a record that fails when nothing else is waited for. The server is
 * real, activities are scripted.
 */
import { ApplicationFailure } from '@temporalio/common';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { Trip } from '../../protocol/breaker.ts';
import type { TrainStatus } from '../../protocol/train-status.ts';
import { useWorkflowWorld } from '../support/use-world.ts';

const world = useWorkflowWorld();
const configOf = (run: string) => ({
  run,
  policy: { base: '/p' },
  task: { name: 't', train: 10 },
  steps: 1,
  batch: { tasks: 1, samples: 2 },
  evaluation: { tasks: 1, greedy: false },
});
const agent = { maxTurns: 9, maxContextTokens: 1000, toolTimeoutSeconds: 10 };
const statuses = (activity: string) =>
  world.now.log.calls.filter((call) => call.activity === activity).map(({ rollout }) => rollout);

it('a circuit that opened before the run had started pauses it with its reason, and a resume that came as early ends that', async () => {
  const trip: Trip = { failure: 'endpoint-unavailable', failed: 8, of: 8, message: 'connection refused' };
  const begin = async (run: string) => {
    const options = { taskQueue: 'orchestrator', workflowId: `train/${run}`, args: [configOf(run)] };
    const handle = await world.now.client.workflow.signalWithStart('train', {
      ...options,
      signal: 'circuitOpened',
      signalArgs: [trip],
    });
    return { handle, status: () => handle.query<TrainStatus>('status') };
  };
  const paused = await begin('early');
  await expect.poll(paused.status).toMatchObject({ phase: 'paused', pauseAt: 'turn', tripped: trip, steps: 1 });
  await paused.handle.signal('resume');
  expect(await paused.handle.result()).toMatchObject({ steps: 1 });
  const resumed = await begin('resumed');
  await resumed.handle.signal('resume');
  expect(await resumed.handle.result()).toMatchObject({ steps: 1 });
});

it.each([
  ['train', 'train/late', configOf('late'), 'closeRun'],
  ['evalSweep', 'eval/late', { agent, dispatcher: { type: 'batch' } }, 'closeSweep'],
])(
  'a %s that is cancelled while its end is recorded is recorded as cancelled, not as running',
  async (workflow, id, config, activity) => {
    world.script = {
      before: (called, { rollout }) => (called === activity && rollout === 'completed' ? sleep(5_000) : undefined),
    };
    const handle = await world.start(workflow, id, config);
    await expect.poll(() => statuses(activity)).toEqual(['completed']);
    await handle.cancel();
    await expect(handle.result()).rejects.toThrow('Workflow execution cancelled');
    expect(statuses(activity)).toEqual(['completed', 'cancelled']);
  },
);

it('a batch whose last failure cannot be recorded does not end as if it were', async () => {
  world.script = {
    before: async (activity, { rollout }) => {
      if (activity === 'agentRun' && rollout?.endsWith('/1'))
        throw ApplicationFailure.nonRetryable('no such task', 'UserInputError');
      if (activity === 'computeReward') while (world.count('recordFailures') === 0) await sleep(20);
      if (activity !== 'recordFailures') return;
      // Until the other one is graded, and the batch has received its end.
      while (world.count('computeReward') === 0) await sleep(20);
      await sleep(1_500);
      throw ApplicationFailure.nonRetryable('damaged', 'StoreCorrupt');
    },
  };
  const input = {
    run: 'late',
    name: 'b',
    step: 1,
    tasks: ['t-train-0'],
    samples: 2,
    policy: { uri: 'file:///p', version: 1 },
    agent,
    seed: 1,
    dispatcher: { type: 'batch' },
    sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 10 },
  };
  const ended: unknown = await (
    await world.start('batch', 'late/batch', input)
  )
    .result()
    .catch((error: unknown) => error);
  expect(ended).toMatchObject({ cause: { cause: { type: 'StoreCorrupt', message: 'damaged' } } });
});
