/** A batch's rollouts as child workflows: what each is called, how it is started, let in, asked and cancelled. Nothing here decides. */

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
 * Of Temporal's priority keys, 1 (first) to 5. A rollout hands its own on to what it starts; training's rollouts have
 * that of their run, which is 3 where nothing is said.
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

  /** Place of its group among the batch's tasks. */
  group(index: number): number {
    return Math.floor(index / this.#input.samples);
  }

  /** That it ended without a result of its own. */
  unfinished(index: number, error: unknown): RolloutResult {
    return unfinished(this.id(index), this.task(index), error);
  }

  /** Of groups `from` to `to`, the latter left out. */
  members(from: number, to: number): number[] {
    const { samples } = this.#input;
    return Array.from({ length: (to - from) * samples }, (_, i) => from * samples + i);
  }

  /** `undefined` for what is no rollout of this batch. */
  indexOf(id: string): number | undefined {
    return this.#indexOf.get(id);
  }

  handle(index: number) {
    return getExternalWorkflowHandle(this.id(index));
  }

  /** `outlives`: the history that begins it, to whose successors it tells its end itself. */
  start(index: number, outlives: boolean) {
    const { run, step, policy, agent, sampling, seed, samples, firstSample = 0, priority, name, breaker } = this.#input;
    const { gates } = this.#settings;
    const task = this.task(index);
    const sample = firstSample + (index % samples);
    return whenFree(() =>
      startChild(rolloutWorkflow, {
        workflowId: this.id(index),
        args: [
          {
            task,
            policy,
            agent,
            sampling,
            run,
            step,
            sample,
            seed,
            gates,
            ...(outlives ? { reportsEnd: true } : {}),
            ...(breaker?.maxConsecutiveFailures === 0 ? { holds: false } : {}),
          },
        ],
        // It is cancelled by the batch itself.
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

  /** Lets it into `stage`. One that has ended meanwhile says so itself. */
  async proceed(index: number, stage: GatedStage): Promise<void> {
    try {
      await this.handle(index).signal(proceedSignal, stage);
    } catch (error) {
      if (isCancellation(error)) throw error;
    }
  }

  /** Whether it has ended: only what runs takes a signal. */
  async isGone(index: number): Promise<boolean> {
    try {
      await this.handle(index).signal('probe');
      return false;
    } catch (error) {
      if (isCancellation(error)) throw error;
      return true;
    }
  }

  /** What cannot be cancelled has ended. */
  async cancel(members: readonly number[]): Promise<void> {
    for (const chunk of chunksOf(members)) await Promise.allSettled(chunk.map((index) => this.handle(index).cancel()));
  }
}
