/**
 * One batch of rollouts: every one is dispatched once and ends once. A rollout that fails is a result like another;
 * it never aborts the batch and never blocks it. A long batch goes on in new histories while its rollouts run on.
 */

import {
  allHandlersFinished,
  CancellationScope,
  condition,
  ContinueAsNew,
  continueAsNew,
  defineQuery,
  isCancellation,
  setCurrentDetails,
  setHandler,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import { orchestrator } from './activities.ts';
import { Children, CHUNK, chunksOf } from './batch/children.ts';
import { BatchLedger, varies } from './batch/ledger.ts';
import { isFull, isLong } from './batch/long-batch.ts';
import type { BatchProgress } from './batch/progress.ts';
import { Countdown, GIVEN_UP, type GivenUpReason, isCompleteWithoutRest, refusedStraggler } from './batch/stragglers.ts';
import { beginOrder, refusedSetting, type Schedule, scheduleOf } from './batch/dispatch-schedule.ts';
import { Dispatcher, gatesOf } from './batch/dispatcher.ts';
import { DynamicSampling } from './batch/dynamic-sampling.ts';
import { FailureWatch } from './failures/failure-watch.ts';
import { hearSignals, on } from './hear-signals.ts';
import { PauseRelay } from './pause-relay.ts';
import { ReplaceSampling } from './batch/replace-sampling.ts';
import { rolloutEndedSignal, unfinished } from './rollout/report-end.ts';
import { refuse } from './rollout/resolve-rollout.ts';
import { pauseSignal, resumeSignal } from './rollout.ts';
import { stageEndedSignal } from './rollout/stage-gates.ts';
import type { BatchInput, BatchResult } from './messages/batch.ts';
import type { GatedStage, RolloutResult } from './messages/rollout.ts';

/** A rollout that is cancelled gives its sandbox back; one that cannot is not waited for any longer. */
const END_WITHIN = '60s';
/** How often rollouts of earlier histories are asked whether they live: one that was terminated reports nothing. */
const PROBE_EVERY = '10m';

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

function isCancelled(): boolean {
  return CancellationScope.current().parent?.consideredCancelled ?? false;
}

class Batch {
  readonly #input: BatchInput;
  readonly #children: Children;
  readonly #gates: GatedStage[];
  readonly #dispatcher: Dispatcher;
  readonly #order: Schedule['order'];
  readonly #sampling: DynamicSampling | ReplaceSampling;
  readonly #ledger: BatchLedger;
  readonly #long: boolean;
  readonly #begunAt: number;
  /** Begun in an earlier history. */
  readonly #adopted: ReadonlySet<number>;
  /** Let in, not begun yet. */
  readonly #admitted: number[];
  readonly #relay: PauseRelay;
  readonly #failures: FailureWatch;
  /** No longer waited for, and not ended yet. */
  readonly #givenUp: Map<number, GivenUpReason>;
  readonly #countdown: Countdown | null;
  #expired = false;
  #paused: boolean;
  #started: number;
  /** Nothing more begins in this history. */
  #resting = false;
  /** What must be settled before this history may end. */
  #inFlight = 0;
  /** Settles when the groups begun so far are dispatched. */
  #dispatched: Promise<void> = Promise.resolve();
  /** Why groups cannot be dispatched. */
  #failure: unknown;

  constructor(input: BatchInput, { caps, order }: Schedule, { long, progress }: LongBatch) {
    this.#input = input;
    this.#failures = new FailureWatch(input.breaker);
    this.#gates = gatesOf(input.tasks.length * input.samples, caps);
    this.#children = new Children(input, { gates: this.#gates, long });
    this.#order = order;
    this.#long = long;
    this.#dispatcher = new Dispatcher(caps, progress?.places);
    this.#sampling = input.replace
      ? new ReplaceSampling(input.tasks.length, input.replace, progress?.sampling)
      : new DynamicSampling(input.tasks.length, input.wanted, progress?.sampling);
    this.#ledger = new BatchLedger(input.samples, progress?.ledger);
    this.#begunAt = progress?.begunAt ?? Date.now();
    this.#admitted = [...(progress?.admitted ?? [])];
    this.#givenUp = new Map(progress?.givenUp);
    this.#paused = progress?.paused ?? false;
    this.#started = progress?.started ?? 0;
    const { deadlineSeconds } = input.stragglers ?? {};
    this.#countdown = deadlineSeconds === undefined ? null : new Countdown(progress?.leftMs ?? deadlineSeconds * 1000);
    this.#relay = new PauseRelay(this.#paused);
    this.#adopted = new Set(this.#running());
    for (const index of this.#adopted) this.#relay.adopt(this.#children.id(index), this.#children.handle(index));
  }

  /** Groups that have begun. */
  get groups(): number {
    return this.#sampling.begun;
  }

  /** Rollouts of the groups that have begun. */
  get total(): number {
    return this.groups * this.#input.samples;
  }

  get progress(): BatchProgress {
    return {
      begunAt: this.#begunAt,
      started: this.#started,
      paused: this.#paused,
      sampling: this.#sampling.progress,
      places: this.#dispatcher.progress,
      ledger: this.#ledger.progress,
      admitted: this.#admitted,
      givenUp: [...this.#givenUp],
      ...(this.#countdown ? { leftMs: this.#countdown.leftMs(Date.now()) } : {}),
    };
  }

  get result(): BatchResult {
    const { ended, graded, passed, rewardSum, failures } = this.#ledger.counts;
    return { groups: this.groups, rollouts: ended, graded, passed, rewardSum, failures, seconds: (Date.now() - this.#begunAt) / 1000 };
  }

  status(): BatchStatus {
    const { ended, passed, failed } = this.#ledger.counts;
    return { total: this.total, started: this.#started, ended, passed, failed, paused: this.#paused };
  }

  /** Nothing begins while it is paused, and what runs is told. */
  pause(paused: boolean): void {
    this.#paused = paused;
    this.#relay.set(paused);
    if (paused) return;
    this.#failures.reset();
    this.#admit();
  }

  stageEnded(id: string, stage: 'init' | GatedStage): void {
    const index = this.#children.indexOf(id);
    if (index === undefined || stage === 'reward') return;
    // A restarted attempt reports the end of a stage again: it kept its place.
    if (this.#dispatcher.placeOf(index) !== stage) return;
    this.#dispatcher.stageEnded(index, stage);
    this.#admit();
  }

  /** Told by Temporal, by the rollout itself, or by both: it counts once. */
  rolloutEnded(given: RolloutResult): void {
    const index = this.#children.indexOf(given.rollout);
    if (index === undefined || !this.#isOpen(index)) return;
    const result = this.#asGivenUp(index, given);
    this.#failures.heard(result);
    this.#relay.remove(given.rollout);
    this.#dispatcher.ended(index);
    const group = this.#children.group(index);
    const tally = this.#ledger.end(group, result);
    if (tally.ended === this.#input.samples) this.#groupEnded(varies(tally));
    else if (result.status === 'graded' && isCompleteWithoutRest(tally, this.#input.samples, this.#input.stragglers ?? {})) {
      this.#giveUp(this.#children.members(group, group + 1), 'straggler');
    }
    this.#admit();
    const { ended, passed } = this.#ledger.counts;
    setCurrentDetails(`${ended} of ${this.total} rollouts ended, ${passed} passed`);
  }

  /** True when every rollout has ended, false when the batch is to go on in a new history; rollouts begin in chunks. */
  async run(): Promise<boolean> {
    this.#watch(this.#expire());
    this.#watch(this.#probe());
    this.#begin();
    this.#admit();
    while (!this.#isOver()) {
      const mayBegin = () => this.#admitted.length > 0 && !this.#paused;
      await condition(() => mayBegin() || this.#isOver() || this.#failure !== undefined || this.#isFull());
      if (this.#failure !== undefined) throw this.#failure;
      if (this.#isFull() && !this.#isOver()) {
        await this.#rest();
        return false;
      }
      for (const index of this.#admitted.splice(0, CHUNK)) this.#track(this.#beginChild(index));
      if (this.#admitted.length > 0) await sleep(1);
    }
    await condition(() => this.#inFlight === 0);
    return true;
  }

  /** Those that were not graded, on record. */
  async recordFailures(): Promise<void> {
    for (const failures of chunksOf(this.#ledger.takeFailures())) await orchestrator.recordFailures({ run: this.#input.run, failures });
  }

  /** Ends what runs: Temporal cancels what this history began, and we the rest. What does not end has its own deadlines. */
  async cancel(): Promise<void> {
    this.#resting = true;
    // Those that were let in and have not begun never do: there is nothing of them to wait for.
    const open = this.#running();
    this.#admitted.splice(0);
    await this.#children.cancel(open.filter((index) => this.#adopted.has(index) || !isCancelled()));
    await condition(() => !open.some((index) => this.#isOpen(index)), END_WITHIN);
  }

  #unfinished(index: number, error: unknown): RolloutResult {
    return unfinished(this.#children.id(index), this.#children.task(index), error);
  }

  #isOver(): boolean {
    return this.#ledger.counts.ended === this.total;
  }

  #isFull(): boolean {
    return this.#long && isFull(workflowInfo());
  }

  #isOpen(index: number): boolean {
    const place = this.#dispatcher.placeOf(index);
    return place !== undefined && place !== 'waiting' && place !== 'done';
  }

  /** Begun and not ended. */
  #running(): number[] {
    const admitted = new Set(this.#admitted);
    return this.#dispatcher.openRollouts.filter((index) => !admitted.has(index));
  }

  #track(work: Promise<void>): void {
    this.#inFlight += 1;
    const settled = (error?: unknown) => {
      this.#inFlight -= 1;
      if (error !== undefined && !isCancellation(error)) this.#failure ??= error;
    };
    work.then(() => settled(), settled);
  }

  /** Goes on for as long as this history does. */
  #watch(work: Promise<void>): void {
    work.catch((error: unknown) => {
      if (!isCancellation(error)) this.#failure ??= error;
    });
  }

  /** Lets what is under way come to its end, so that no signal, start or record is lost with this history. */
  async #rest(): Promise<void> {
    this.#resting = true;
    const settled = () => this.#inFlight === 0 && this.#relay.isSettled;
    do {
      await condition(settled);
      await this.recordFailures();
    } while (!settled());
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Begins the groups that are needed now, after those that were begun before. */
  #begin(): void {
    if (this.#resting || this.#expired) return;
    const from = this.groups;
    const count = this.#sampling.admit();
    if (count === 0) return;
    this.#dispatched = this.#dispatched.then(() => this.#dispatch(from, from + count));
    this.#track(this.#dispatched);
  }

  /** Noted as dispatched before anything of them runs. */
  async #dispatch(from: number, to: number): Promise<void> {
    const { run, name, samples, firstSample = 0, tasks } = this.#input;
    const batch = workflowInfo().workflowId;
    await orchestrator.recordDispatched({ run, name, batch, tasks: tasks.slice(from, to), samples, firstSample });
    this.#dispatcher.add(beginOrder(this.#input, from, to, this.#order));
    if (this.#expired) this.#giveUp(this.#children.members(from, to), 'deadline');
    this.#admit();
  }

  #groupEnded(varied: boolean): void {
    if (this.#input.wanted === undefined && this.#input.replace === undefined) return;
    this.#sampling.groupEnded(varied);
    this.#begin();
  }

  /** Lets in what may go on now: at once, so that a stage without a gate is entered before its end is reported. */
  #admit(): void {
    if (this.#paused || this.#resting) return;
    for (const { rollout, stage } of this.#dispatcher.admissions()) {
      if (stage === 'init') this.#admitted.push(rollout);
      else if (this.#gates.includes(stage)) this.#track(this.#children.proceed(rollout, stage));
    }
  }

  async #beginChild(index: number): Promise<void> {
    this.#started += 1;
    const id = this.#children.id(index);
    try {
      const child = await this.#children.start(index);
      this.#relay.add(id, child);
      this.#watch(this.#follow(index, child.result()));
    } catch (error) {
      this.rolloutEnded(this.#unfinished(index, error));
    }
  }

  async #follow(index: number, end: Promise<RolloutResult>): Promise<void> {
    this.rolloutEnded(await end.catch((error: unknown) => this.#unfinished(index, error)));
  }

  /** Gives up what has not ended when the batch's time is over; a pause stops the clock. */
  async #expire(): Promise<void> {
    const clock = this.#countdown;
    if (!clock) return;
    const stops = () => this.#paused || this.#resting || this.#isOver();
    while (clock.leftMs(Date.now()) > 0) {
      await condition(() => !this.#paused);
      clock.start(Date.now());
      await condition(stops, clock.leftMs(Date.now()));
      clock.stop(Date.now());
      if (this.#resting || this.#isOver()) return;
    }
    this.#expired = true;
    this.#giveUp(this.#children.members(0, this.groups), 'deadline');
  }

  /** Finds those of earlier histories that have ended without a word. */
  async #probe(): Promise<void> {
    const living = () => [...this.#adopted].filter((index) => this.#isOpen(index));
    const isDone = () => this.#resting || this.#isOver() || living().length === 0;
    while (!isDone()) {
      if (await condition(isDone, PROBE_EVERY)) return;
      for (const chunk of chunksOf(living())) {
        const asked = Promise.all(chunk.map((index) => this.#ask(index))).then(() => undefined);
        this.#track(asked);
        await asked;
      }
    }
  }

  async #ask(index: number): Promise<void> {
    if (!(await this.#children.isGone(index))) return;
    this.rolloutEnded(this.#unfinished(index, new Error('The rollout ended without a result: it was terminated, or its workflow failed')));
  }

  /** What of `members` has not ended: what has not begun does not begin, what runs is cancelled and ends soon. */
  #giveUp(members: readonly number[], reason: GivenUpReason): void {
    const cancelled: number[] = [];
    for (const index of members) {
      const place = this.#dispatcher.placeOf(index);
      if (place === undefined || place === 'done' || this.#givenUp.has(index)) continue;
      this.#givenUp.set(index, reason);
      const admitted = this.#admitted.indexOf(index);
      if (admitted >= 0) this.#admitted.splice(admitted, 1);
      if (place === 'waiting') this.#withdraw(index);
      else if (admitted >= 0) this.#without(index);
      else cancelled.push(index);
    }
    if (cancelled.length > 0) this.#track(this.#endSoon(cancelled));
  }

  #withdraw(index: number): void {
    const result = this.#asGivenUp(index, this.#unfinished(index, ''));
    this.#dispatcher.withdrawn(index);
    const tally = this.#ledger.end(this.#children.group(index), result);
    if (tally.ended === this.#input.samples) this.#groupEnded(varies(tally));
  }

  #without(index: number): void {
    this.rolloutEnded(this.#unfinished(index, ''));
  }

  async #endSoon(members: readonly number[]): Promise<void> {
    await this.#children.cancel(members);
    const left = () => members.filter((index) => this.#isOpen(index));
    await condition(() => left().length === 0, END_WITHIN);
    for (const index of left()) this.#without(index);
  }

  /** A rollout that was graded in time counts all the same. */
  #asGivenUp(index: number, result: RolloutResult): RolloutResult {
    const reason = this.#givenUp.get(index);
    this.#givenUp.delete(index);
    return reason === undefined || result.status === 'graded' ? result : { ...result, failure: reason, message: GIVEN_UP[reason] };
  }
}

/** `long`: the batch may go on in new histories, with `progress`. */
export interface LongBatch {
  readonly long: boolean;
  readonly progress?: BatchProgress | undefined;
}

/**
 * `progress` is for continue-as-new alone.
 * Errors: a non-retryable `UserInputError` for settings that cannot be used.
 */
export async function batch(input: BatchInput, progress?: BatchProgress): Promise<BatchResult> {
  const refused = refusedSetting(input.dispatcher);
  if (refused) refuse(`dispatcher.${refused.field}`, refused.value, refused.remedy);
  const straggler = refusedStraggler(input.stragglers ?? {}, input.samples);
  if (straggler) refuse(`stragglers.${straggler.field}`, straggler.value, straggler.remedy);
  const schedule = scheduleOf(input.dispatcher);
  const rollouts = input.tasks.length * input.samples;
  const long = progress !== undefined || isLong(rollouts, gatesOf(rollouts, schedule.caps));
  return runBatch(input, schedule, { long, progress });
}

/** The whole of a batch but for the reading of its settings. */
export async function runBatch(input: BatchInput, schedule: Schedule, history: LongBatch = { long: false }): Promise<BatchResult> {
  const work = new Batch(input, schedule, history);
  setHandler(batchStatusQuery, () => work.status());
  hearSignals(
    on(pauseSignal, () => work.pause(true)),
    on(resumeSignal, () => work.pause(false)),
    on(stageEndedSignal, (id, stage) => work.stageEnded(id, stage)),
    on(rolloutEndedSignal, (result) => work.rolloutEnded(result)),
  );
  try {
    const over = await work.run();
    if (!over) await condition(allHandlersFinished);
    if (!over) await continueAsNew<typeof batch>(input, work.progress);
  } catch (error) {
    if (!(error instanceof ContinueAsNew)) await CancellationScope.nonCancellable(() => work.cancel());
    throw error;
  }
  await work.recordFailures();
  await condition(allHandlersFinished);
  return work.result;
}
