/**
 * A batch's rollouts as child workflows: the id of each, and how it is started, admitted, probed and cancelled. Nothing
 * here decides.
 */

import {
  getExternalWorkflowHandle,
  isCancellation,
  ParentClosePolicy,
  startChild,
  workflowInfo,
} from '@temporalio/workflow';
import { chunksOf } from './history-budget.ts';
import { rolloutIds, type GatedStage, type RolloutResult } from '../../protocol/rollout.ts';
import { unfinished } from '../rollout/report-end.ts';
import { rollout as rolloutWorkflow } from '../rollout.ts';
import { groupKey, policyVersionKey, runKey, stageKey, stepKey, taskKey } from '../../protocol/search-attributes.ts';
import { proceedSignal } from '../rollout/stage-gates.ts';
import { whenFree } from '../start-child-when-free.ts';
import type { BatchInput } from '../../protocol/batch.ts';

/**
 * One of Temporal's priority keys, 1 (first) to 5. A rollout passes its key on to its activities. Training's rollouts
 * have the key of their run, which is 3 by default.
 */
const EVAL_PRIORITY = { priorityKey: 4 };

export interface ChildSettings {
  readonly gates: readonly GatedStage[];
}

export class Children {
  readonly #input: BatchInput;
  readonly #settings: ChildSettings;
  readonly #ids: readonly string[];
  readonly #indexOf: ReadonlyMap<string, number>;

  constructor(input: BatchInput, settings: ChildSettings) {
    this.#input = input;
    this.#settings = settings;
    this.#ids = rolloutIds(workflowInfo().workflowId, input.tasks, input.samples, input.firstSample);
    this.#indexOf = new Map(this.#ids.map((id, index) => [id, index]));
  }

  id(index: number): string {
    return this.#ids[index] ?? '';
  }

  task(index: number): string {
    return this.#input.tasks[this.group(index)] ?? '';
  }

  /** Index of its group among the batch's tasks. */
  group(index: number): number {
    return Math.floor(index / this.#input.samples);
  }

  /** The result of a rollout that ended without one. */
  unfinished(index: number, error: unknown): RolloutResult {
    return unfinished(this.id(index), this.task(index), error);
  }

  /** The rollouts of groups `from` to `to`, without those of `to`. */
  members(from: number, to: number): number[] {
    const { samples } = this.#input;
    return Array.from({ length: (to - from) * samples }, (_, i) => from * samples + i);
  }

  /** Returns `undefined` if the id is not a rollout of this batch. */
  indexOf(id: string): number | undefined {
    return this.#indexOf.get(id);
  }

  handle(index: number) {
    return getExternalWorkflowHandle(this.id(index));
  }

  /** `outlives`: true if the rollout may outlive this history; then it reports its end itself. */
  start(index: number, outlives: boolean) {
    const {
      run,
      step,
      catalog,
      policy,
      agent,
      sampling,
      judges,
      seed,
      engine,
      samples,
      firstSample = 0,
      priority,
      name,
      breaker,
    } = this.#input;
    const { gates } = this.#settings;
    const task = this.task(index);
    const sample = firstSample + (index % samples);
    return whenFree(() =>
      startChild(rolloutWorkflow, {
        workflowId: this.id(index),
        args: [
          {
            task,
            ...(catalog === undefined ? {} : { catalog }),
            policy,
            agent,
            sampling,
            ...(judges === undefined ? {} : { judges }),
            run,
            step,
            sample,
            seed,
            ...(engine !== undefined && { engine }),
            gates,
            ...(outlives ? { reportsEnd: true } : {}),
            ...(breaker?.maxConsecutiveFailures === 0 ? { holds: false } : {}),
          },
        ],
        // A rollout that outlives the history is cancelled by the batch itself.
        parentClosePolicy: outlives ? ParentClosePolicy.ABANDON : ParentClosePolicy.REQUEST_CANCEL,
        ...(priority === 'eval' ? { priority: EVAL_PRIORITY } : {}),
        staticSummary: `${task} · sample ${sample} · policy v${policy.version}`,
        typedSearchAttributes: [
          { key: runKey, value: run },
          { key: stepKey, value: step },
          { key: taskKey, value: task },
          { key: groupKey, value: `${name}/${task}` },
          { key: stageKey, value: 'init' },
          { key: policyVersionKey, value: policy.version },
        ],
      }),
    );
  }

  /** Admits it to `stage`. A rollout that has ended meanwhile reports this itself. */
  async proceed(index: number, stage: GatedStage): Promise<void> {
    try {
      await this.handle(index).signal(proceedSignal, stage);
    } catch (error) {
      if (isCancellation(error)) throw error;
    }
  }

  /** True if it has ended: only a running workflow takes a signal. */
  async isGone(index: number): Promise<boolean> {
    try {
      await this.handle(index).signal('probe');
      return false;
    } catch (error) {
      if (isCancellation(error)) throw error;
      return true;
    }
  }

  /** A rollout that cannot be cancelled has ended. */
  async cancel(members: readonly number[]): Promise<void> {
    for (const chunk of chunksOf(members)) await Promise.allSettled(chunk.map((index) => this.handle(index).cancel()));
  }
}
