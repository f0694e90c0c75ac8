/** The bundle of `bench durability`: the steps of a training run, by the real batch, rollout and update. */

import { executeChild } from '@temporalio/workflow';
import { orchestrator, training } from '../../workflows/activity-stubs.ts';
import { batch as batchWorkflow } from '../../workflows/batch.ts';
import { selectTasks } from '../../workflows/training/select-tasks.ts';
import type { PolicyRef } from '../../protocol/policy.ts';
import type { RunConfig } from '../../protocol/run-config.ts';

export { batch } from '../../workflows/batch.ts';
export { rollout } from '../../workflows/rollout.ts';

/** As `train` makes its steps, files and records included, without the evaluations around them. */
export async function steps(config: RunConfig, runDir: string): Promise<string> {
  const { run, seed, batch, task, agent, sampling, dispatcher, algorithm } = config;
  let policy: PolicyRef = { dir: config.policy.base, version: 0 };
  let sha256 = '';
  for (let step = 1; step <= config.steps; step += 1) {
    const begun = Date.now();
    const tasks = selectTasks(seed, step, task.train, batch.tasks).map((i) => `${task.name}-train-${i}`);
    const name = `step-${step}`;
    const { samples } = batch;
    const workflowId = `train/${run}/${name}`;
    const input = { run, name, step, tasks, samples, policy, agent, sampling, seed, dispatcher };
    const { seconds } = await executeChild(batchWorkflow, { workflowId, args: [input] });
    const outcome = await training('colocated').update({
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
  return sha256;
}
