/** The workflow bundle of every bench: the real workflows, and those that they are compared with. */

import { executeChild, proxyActivities } from '@temporalio/workflow';
import type { BatchInput, BatchResult } from '../protocol/batch.ts';
import type { PolicyRef } from '../protocol/policy.ts';
import { hostQueue, QUEUES } from '../protocol/queues.ts';
import type { OpenedConfig } from '../protocol/run-config.ts';
import { orchestrator, training } from '../workflows/activity-stubs.ts';
import { batch as batchWorkflow, runBatch } from '../workflows/batch.ts';
import type { BatchProgress } from '../workflows/batch/progress.ts';
import { tasksOfStep } from '../workflows/training/step-tasks.ts';
import { skyrlPipeline } from './dispatch/orders.ts';

export { batch } from '../workflows/batch.ts';
export { rollout } from '../workflows/rollout.ts';
export { train } from '../workflows/train.ts';

interface EmptyActivities {
  empty(): Promise<void>;
}

const on = (taskQueue: string) =>
  proxyActivities<EmptyActivities>({ taskQueue, startToCloseTimeout: '2m', heartbeatTimeout: '10s' });

/** `bench orchestration`: only the activities of a rollout with `turns` turns, in its order and on its queues. */
export async function bare(turns: number, host: string): Promise<void> {
  const queues = Array.from({ length: turns - 1 }, () => [QUEUES.gpu, hostQueue(host)]).flat();
  for (const queue of [QUEUES.init, ...queues, QUEUES.gpu, hostQueue(host), QUEUES.reward]) await on(queue).empty();
}

/** `bench dispatch`: a batch's input with SkyRL-Agent's caps. */
export interface ReferenceInput extends BatchInput {
  readonly reference: { readonly run: number; readonly evaluation: number };
}

/** The real batch in SkyRL-Agent's order. */
export async function referenceBatch(input: ReferenceInput, progress?: BatchProgress): Promise<BatchResult> {
  return runBatch(input, skyrlPipeline(input.reference.run, input.reference.evaluation), progress);
}

/** `bench durability`: the steps of `train` with their files and records, without evaluations. */
export async function steps(config: OpenedConfig, runDir: string): Promise<string> {
  const { run, seed, batch, agent, sampling, dispatcher, algorithm } = config;
  let policy: PolicyRef = { uri: config.policy.base, version: 0 };
  let sha256: string | null = '';
  for (let step = 1; step <= config.steps; step += 1) {
    const begun = Date.now();
    const { tasks } = tasksOfStep(config, step);
    const name = `step-${step}`;
    const { samples } = batch;
    const workflowId = `train/${run}/${name}`;
    const input = { run, name, step, tasks, samples, policy, agent, sampling, seed, dispatcher };
    const { seconds } = await executeChild(batchWorkflow, { workflowId, args: [input] });
    const outcome = await training('colocated', undefined).update({
      run,
      runDir,
      step,
      steps: config.steps,
      batches: [workflowId],
      samples,
      policy,
      algorithm,
    });
    ({ policy, sha256 } = outcome);
    const total = (Date.now() - begun) / 1000;
    const record = { ...outcome.record, seconds: { rollout: seconds, train: total - seconds, total } };
    await orchestrator.recordStep({ run, runDir, record, policy, sha256, keep: step === config.steps });
  }
  return sha256 ?? '';
}
