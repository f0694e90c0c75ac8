/**
 * One batch of rollouts: every one is dispatched once and ends once. A rollout that fails is a result like another;
 * it never aborts the batch and never blocks it.
 */

import {
  allHandlersFinished,
  ChildWorkflowFailure,
  condition,
  defineQuery,
  getExternalWorkflowHandle,
  isCancellation,
  ParentClosePolicy,
  setCurrentDetails,
  setHandler,
  sleep,
  startChild,
  workflowInfo,
} from '@temporalio/workflow';
import { orchestrator } from './activities.ts';
import { beginOrder, refusedSetting, type Schedule, scheduleOf } from './dispatch-schedule.ts';
import { Dispatcher, gatesOf } from './dispatcher.ts';
import { DynamicSampling } from './dynamic-sampling.ts';
import { hearSignals, on } from './hear-signals.ts';
import { PauseRelay } from './pause-relay.ts';
import { refuse } from './resolve-rollout.ts';
import { rolloutIds } from './rollout-ids.ts';
import { pauseSignal, resumeSignal, rollout as rolloutWorkflow } from './rollout.ts';
import { groupKey, policyVersionKey, runKey, stageKey, stepKey, taskKey } from './search-attributes.ts';
import { proceedSignal, stageEndedSignal } from './stage-gates.ts';
import { whenFree } from './start-child-when-free.ts';
import type { BatchInput, BatchResult, GatedStage, RolloutResult } from './types.ts';

/** Children started from one workflow task: far below Temporal's limits on commands and bytes. */
const CHUNK = 100;
/** Of the 51,200 events that a history may have; to resume its rollouts is always possible. */
const PAUSABLE_EVENTS = 36_000;

/**
 * Of Temporal's priority keys, 1 (first) to 5. A rollout hands its own on to what it starts; training's rollouts have
 * that of their run, which is 3 where nothing is said.
 */
const EVAL_PRIORITY = { priorityKey: 4 };

export interface BatchStatus {
  readonly total: number;
  readonly started: number;
  readonly ended: number;
  readonly passed: number;
  readonly failed: number;
  /** Rollouts stop before their next turn, and none begins. */
  readonly paused: boolean;
}

export const batchStatusQuery = defineQuery<BatchStatus>('status');

class Batch {
  readonly #input: BatchInput;
  readonly #ids: string[];
  readonly #gates: GatedStage[];
  readonly #dispatcher: Dispatcher;
  readonly #order: Schedule['order'];
  readonly #indexOf: ReadonlyMap<string, number>;
  readonly #sampling: DynamicSampling;
  /** Results of each group, by its place among the tasks. */
  readonly #groups: RolloutResult[][];
  readonly results: RolloutResult[] = [];
  /** Let in, not begun yet. */
  readonly #admitted: number[] = [];
  readonly #running: Array<Promise<void>> = [];
  readonly #relay = new PauseRelay();
  #paused = false;
  #started = 0;
  /** Settles when the groups begun so far are dispatched. */
  #dispatched: Promise<void> = Promise.resolve();
  /** Why groups cannot be dispatched. */
  #failure: unknown;

  constructor(input: BatchInput, { caps, order }: Schedule) {
    this.#input = input;
    this.#ids = rolloutIds(workflowInfo().workflowId, input.tasks, input.samples, input.firstSample);
    this.#gates = gatesOf(this.#ids.length, caps);
    this.#dispatcher = new Dispatcher(caps);
    this.#order = order;
    this.#sampling = new DynamicSampling(input.tasks.length, input.wanted);
    this.#groups = input.tasks.map(() => []);
    this.#indexOf = new Map(this.#ids.map((id, index) => [id, index]));
  }

  /** Groups that have begun. */
  get groups(): number {
    return this.#sampling.begun;
  }

  /** Rollouts of the groups that have begun. */
  get total(): number {
    return this.groups * this.#input.samples;
  }

  status(): BatchStatus {
    const passed = this.results.filter((r) => r.passed).length;
    const failed = this.results.filter((r) => r.status === 'failed').length;
    return { total: this.total, started: this.#started, ended: this.results.length, passed, failed, paused: this.#paused };
  }

  /** Nothing begins while it is paused, and what runs is told: where the history has no room for that, it runs on. */
  pause(paused: boolean): void {
    this.#paused = paused;
    if (!paused || workflowInfo().historyLength < PAUSABLE_EVENTS) this.#relay.set(paused);
    if (!paused) this.#admit();
  }

  stageEnded(id: string, stage: 'init' | GatedStage): void {
    const index = this.#indexOf.get(id);
    if (index === undefined || stage === 'reward') return;
    // A restarted attempt reports the end of a stage again: it kept its place.
    if (this.#dispatcher.placeOf(index) !== stage) return;
    this.#dispatcher.stageEnded(index, stage);
    this.#admit();
  }

  /** Returns when every rollout has ended; new ones begin in chunks. */
  async run(): Promise<void> {
    this.#begin();
    while (this.results.length < this.total) {
      const mayBegin = () => this.#admitted.length > 0 && !this.#paused;
      await condition(() => mayBegin() || this.results.length === this.total || this.#failure !== undefined);
      if (this.#failure !== undefined) throw this.#failure;
      this.#running.push(...this.#admitted.splice(0, CHUNK).map((index) => this.#runChild(index)));
      if (this.#admitted.length > 0) await sleep(1);
    }
    await Promise.all(this.#running);
  }

  /** Begins the groups that are needed now, after those that were begun before. */
  #begin(): void {
    const from = this.groups;
    const count = this.#sampling.admit();
    if (count === 0) return;
    const dispatched = this.#dispatched.then(() => this.#dispatch(from, from + count));
    this.#dispatched = dispatched.catch((error: unknown) => {
      this.#failure = error;
    });
  }

  /** Noted as dispatched before anything of them runs. */
  async #dispatch(from: number, to: number): Promise<void> {
    const { run, name, samples, firstSample = 0, tasks } = this.#input;
    const batch = workflowInfo().workflowId;
    await orchestrator.recordDispatched({ run, name, batch, tasks: tasks.slice(from, to), samples, firstSample });
    this.#dispatcher.add(beginOrder(this.#input, from, to, this.#order));
    this.#admit();
  }

  /** Tells the sampling of a group that is complete with this result. */
  #collect(index: number, result: RolloutResult): void {
    const { samples, wanted } = this.#input;
    const group = this.#groups[Math.floor(index / samples)] ?? [];
    group.push(result);
    if (wanted === undefined || group.length < samples) return;
    const rewards = group.flatMap(({ status, reward }) => (status === 'graded' ? [reward] : []));
    this.#sampling.groupEnded(new Set(rewards).size > 1);
    this.#begin();
  }

  /** Lets in what may go on now: at once, so that a stage without a gate is entered before its end is reported. */
  #admit(): void {
    if (this.#paused) return;
    for (const { rollout, stage } of this.#dispatcher.admissions()) {
      if (stage === 'init') this.#admitted.push(rollout);
      else if (this.#gates.includes(stage)) this.#running.push(this.#proceed(this.#ids[rollout] ?? '', stage));
    }
  }

  async #proceed(id: string, stage: GatedStage): Promise<void> {
    try {
      await getExternalWorkflowHandle(id).signal(proceedSignal, stage);
    } catch (error) {
      // The child has ended meanwhile: its result arrives by itself.
      if (isCancellation(error)) throw error;
    }
  }

  async #runChild(index: number): Promise<void> {
    this.#started += 1;
    const result = await this.#outcome(index, this.#ids[index] ?? '');
    this.results.push(result);
    this.#collect(index, result);
    this.#dispatcher.ended(index);
    this.#admit();
    const { ended, total, passed } = this.status();
    setCurrentDetails(`${ended} of ${total} rollouts ended, ${passed} passed`);
  }

  async #outcome(index: number, id: string): Promise<RolloutResult> {
    const { run, step, policy, agent, sampling, seed, samples, firstSample = 0, tasks, priority } = this.#input;
    const task = tasks[Math.floor(index / samples)] ?? '';
    const sample = firstSample + (index % samples);
    try {
      const child = await whenFree(() => startChild(rolloutWorkflow, {
        workflowId: id,
        args: [{ task, policy, agent, sampling, run, step, sample, seed, gates: this.#gates }],
        parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
        ...(priority === 'eval' ? { priority: EVAL_PRIORITY } : {}),
        staticSummary: `${task} · sample ${sample} · policy v${policy.version}`,
        typedSearchAttributes: [
          { key: runKey, value: run },
          { key: stepKey, value: step },
          { key: taskKey, value: task },
          { key: groupKey, value: `${this.#input.name}/${task}` },
          { key: stageKey, value: 'init' },
          { key: policyVersionKey, value: policy.version },
        ],
      }));
      this.#relay.add(id, child);
      return await child.result();
    } catch (error) {
      if (isCancellation(error) && !(error instanceof ChildWorkflowFailure)) throw error;
      const cancelled = isCancellation(error);
      const message = (error instanceof Error ? error.message : String(error)).slice(0, 300);
      const failure = cancelled ? 'cancelled' : 'internal';
      return { rollout: id, task, status: 'failed', attempt: 1, turns: 0, failure, message };
    } finally {
      this.#relay.remove(id);
    }
  }
}

function summarise({ results, groups }: Batch, seconds: number): BatchResult {
  const failures: Partial<Record<NonNullable<RolloutResult['failure']>, number>> = {};
  for (const { failure } of results) if (failure) failures[failure] = (failures[failure] ?? 0) + 1;
  const graded = results.filter((r) => r.status === 'graded');
  return {
    groups,
    rollouts: results.length,
    graded: graded.length,
    passed: graded.filter((r) => r.passed).length,
    rewardSum: graded.reduce((sum, r) => sum + (r.reward ?? 0), 0),
    failures,
    seconds,
  };
}

/** Errors: a non-retryable `UserInputError` for dispatcher settings that cannot be used. */
export async function batch(input: BatchInput): Promise<BatchResult> {
  const refused = refusedSetting(input.dispatcher);
  if (refused) refuse(`dispatcher.${refused.field}`, refused.value, refused.remedy);
  return runBatch(input, scheduleOf(input.dispatcher));
}

/** The whole of a batch but for the reading of its dispatcher's settings. */
export async function runBatch(input: BatchInput, schedule: Schedule): Promise<BatchResult> {
  const begun = Date.now();
  const work = new Batch(input, schedule);
  setHandler(batchStatusQuery, () => work.status());
  hearSignals(
    on(pauseSignal, () => work.pause(true)),
    on(resumeSignal, () => work.pause(false)),
    on(stageEndedSignal, (id, stage) => work.stageEnded(id, stage)),
  );
  await work.run();
  const failures = work.results.filter((r) => r.status === 'failed');
  for (let from = 0; from < failures.length; from += CHUNK) {
    await orchestrator.recordFailures({ run: input.run, failures: failures.slice(from, from + CHUNK) });
  }
  await condition(allHandlersFinished);
  return summarise(work, (Date.now() - begun) / 1000);
}
