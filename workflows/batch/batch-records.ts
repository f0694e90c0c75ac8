/** What a batch writes to the store of its groups: that they were dispatched, what failed, and its manifest. */

import { workflowInfo } from '@temporalio/workflow';
import type { BatchInput } from '../../protocol/batch.ts';
import type { RolloutResult } from '../../protocol/rollout.ts';
import { orchestrator } from '../activity-stubs.ts';
import { chunksOf } from './history-budget.ts';

export class BatchRecords {
  readonly #input: BatchInput;

  constructor(input: BatchInput) {
    this.#input = input;
  }

  /** Records the rollouts of groups `from` to `to`, without those of `to`, as dispatched. */
  async dispatched(from: number, to: number): Promise<void> {
    const { run, name, samples, firstSample = 0, tasks } = this.#input;
    const batch = workflowInfo().workflowId;
    await orchestrator.recordDispatched({ run, name, batch, tasks: tasks.slice(from, to), samples, firstSample });
  }

  /** Records rollouts that were not graded. */
  async failed(failed: readonly RolloutResult[]): Promise<void> {
    const { run, catalog } = this.#input;
    for (const failures of chunksOf(failed))
      await orchestrator.recordFailures({ run, ...(catalog && { catalog }), failures });
  }

  /** Records the manifest: the batch has started so many groups, and all of their rollouts have ended. */
  async ended(groups: number): Promise<void> {
    const { run, samples, firstSample = 0, tasks, catalog } = this.#input;
    const batch = workflowInfo().workflowId;
    const begun = tasks.slice(0, groups);
    await orchestrator.recordBatch({ run, batch, tasks: begun, ...(catalog && { catalog }), samples, firstSample });
  }
}
