/**
 * A batch in progress, in one of its histories: it does what the roster, the sampling and the ledger decide, and
 * reports to them what has happened. A failed rollout is a result like any other: it never aborts or blocks the batch.
 */

import { condition, setCurrentDetails } from '@temporalio/workflow';
import { type Trip, tripLine } from '../../protocol/breaker.ts';
import { FailureWatch } from '../failures/failure-watch.ts';
import type { BatchInput, BatchResult, BatchStatus } from '../../protocol/batch.ts';
import type { GatedStage, RolloutResult } from '../../protocol/rollout.ts';
import { inCode } from '../details.ts';
import { BatchPause } from './batch-pause.ts';
import { BatchRecords } from './batch-records.ts';
import { Children } from './children.ts';
import { chunksOf, HistoryBudget } from './history-budget.ts';
import { beginOrder, type Schedule } from './dispatch-schedule.ts';
import { gatesOf } from './dispatcher.ts';
import { DynamicSampling, samplingRuleOf } from './dynamic-sampling.ts';
import { BatchLedger, type GroupTally, varies } from './ledger.ts';
import { Probe } from './probe.ts';
import type { BatchProgress } from './progress.ts';
import { Roster } from './roster.ts';
import { type Countdown, countdownOf, type GivenUpReason, isCompleteWithoutRest } from './stragglers.ts';
import { PendingTasks } from './pending-tasks.ts';

/** How long the batch waits for cancelled rollouts, which release their sandboxes. */
const END_WITHIN = '60s';
/** How often the batch checks whether rollouts of earlier histories still run. */
const PROBE_EVERY = '10m';

export class BatchExecution {
  readonly #input: BatchInput;
  readonly #children: Children;
  readonly #records: BatchRecords;
  readonly #gates: GatedStage[];
  readonly #order: Schedule['order'];
  readonly #roster: Roster;
  readonly #sampling: DynamicSampling;
  readonly #ledger: BatchLedger;
  readonly #pending = new PendingTasks();
  readonly #budget: HistoryBudget;
  readonly #begunAt: number;
  /** Rollouts that were started in an earlier history. */
  readonly #adopted: ReadonlySet<number>;
  readonly #pause: BatchPause;
  readonly #probe: Probe;
  readonly #failures: FailureWatch;
  readonly #countdown: Countdown | null;
  #expired = false;
  #started: number;
  /** True if nothing more starts in this history. */
  #resting = false;
  /** True if work that takes long is left to the next history. */
  #handsOn = false;
  /** Settles when the groups started so far are dispatched. */
  #dispatched: Promise<void> = Promise.resolve();

  /** `long`: the batch may continue in new histories, with `progress`. */
  constructor(
    input: BatchInput,
    { caps, order }: Schedule,
    { long, progress }: { readonly long: boolean; readonly progress: BatchProgress | undefined },
  ) {
    this.#input = input;
    this.#records = new BatchRecords(input);
    this.#failures = new FailureWatch(input, progress?.watch);
    this.#gates = gatesOf(input.tasks.length * input.samples, caps);
    this.#children = new Children(input, { gates: this.#gates });
    this.#order = order;
    this.#budget = new HistoryBudget(long, this.#gates);
    this.#roster = new Roster(caps, progress);
    this.#sampling = new DynamicSampling(samplingRuleOf(input), progress?.sampling);
    this.#ledger = new BatchLedger(input.samples, progress?.ledger);
    this.#begunAt = progress?.begunAt ?? Date.now();
    this.#pause = new BatchPause(progress);
    this.#started = progress?.started ?? 0;
    this.#countdown = countdownOf(input.stragglers, progress?.leftMs);
    this.#adopted = new Set(this.#roster.running);
    const unsignalled = new Set(progress?.untold);
    for (const index of this.#adopted)
      this.#pause.relay.adopt(this.#children.id(index), this.#children.handle(index), unsignalled.has(index));
    const living = () => [...this.#adopted].filter((index) => this.#roster.isOpen(index));
    const isDone = () => this.#resting || this.#isOver() || living().length === 0;
    this.#probe = new Probe(
      { living, isDone, nextRound: () => condition(isDone, PROBE_EVERY), ask: (members) => this.#ask(members) },
      progress?.unasked,
    );
  }

  /** Groups that have started. */
  get groups(): number {
    return this.#sampling.begun;
  }

  /** Rollouts of the groups that have started. */
  get total(): number {
    return this.groups * this.#input.samples;
  }

  get progress(): BatchProgress {
    const unsignalled = this.#pause.relay.unsignalled.flatMap((id) => this.#children.indexOf(id) ?? []);
    const { unasked } = this.#probe;
    return {
      begunAt: this.#begunAt,
      started: this.#started,
      ...this.#pause.progress,
      sampling: this.#sampling.progress,
      ...this.#roster.progress,
      ledger: this.#ledger.progress,
      watch: this.#failures.progress,
      ...(this.#countdown ? { leftMs: this.#countdown.leftMs(Date.now()) } : {}),
      ...(unsignalled.length > 0 ? { untold: unsignalled } : {}),
      ...(unasked.length > 0 ? { unasked } : {}),
    };
  }

  get result(): BatchResult {
    const { ended, graded, passed, rewardSum, failures } = this.#ledger.counts;
    const said = Object.keys(failures).length > 0 ? { said: this.#ledger.said } : {};
    const { ends } = this.#failures;
    return {
      groups: this.groups,
      rollouts: ended,
      graded,
      passed,
      rewardSum,
      failures,
      ...said,
      ...(ends && { ends }),
      seconds: (this.#pause.clockMs - this.#begunAt) / 1000,
    };
  }

  get status(): BatchStatus {
    const { ended, passed, failed } = this.#ledger.counts;
    return {
      total: this.total,
      started: this.#started,
      ended,
      passed,
      failed,
      paused: this.#pause.isPaused,
      ...(this.#pause.held && { tripped: this.#pause.held }),
    };
  }

  /** Nothing starts while the batch is paused, and its rollouts receive the pause. */
  pause(): void {
    this.#pause.pause();
  }

  resume(): void {
    this.#pause.resume();
    this.#show();
    this.#failures.reset();
    this.#admit();
  }

  /** A rollout is held: batch and run pause until they are resumed. `resumed`: how often the rollout was before. */
  rolloutHeld(id: string, trip: Trip, resumed: number): void {
    const index = this.#children.indexOf(id);
    if (index === undefined || !this.#roster.isOpen(index) || this.#pause.relay.isResumed(id, resumed)) return;
    if (!this.#pause.hold(id, trip)) return;
    this.#show();
    this.#pending.track(this.#failures.held(trip, { name: this.#input.name, resumed: this.#pause.resumed }));
  }

  stageEnded(id: string, stage: 'init' | GatedStage): void {
    const index = this.#children.indexOf(id);
    if (index === undefined || stage === 'reward') return;
    if (this.#roster.stageEnded(index, stage)) this.#admit();
  }

  /** Reported by Temporal, by the rollout itself, or by both: it counts once. */
  rolloutEnded(given: RolloutResult): void {
    const index = this.#children.indexOf(given.rollout);
    if (index === undefined || !this.#roster.isOpen(index)) return;
    this.#budget.ended(index);
    const result = this.#roster.ended(index, given);
    this.#failures.add(result);
    this.#pause.relay.remove(given.rollout);
    const group = this.#children.group(index);
    const tally = this.#count(group, result);
    if (result.status === 'graded' && isCompleteWithoutRest(tally, this.#input.samples, this.#input.stragglers ?? {})) {
      this.#giveUp(this.#children.members(group, group + 1), 'straggler');
    }
    this.#admit();
    this.#show();
  }

  /** Starts rollouts in chunks. Returns true if all have ended, false if the batch is to continue in a new history. */
  async run(): Promise<boolean> {
    this.#continueEarlier();
    this.#pending.watch(this.#expire());
    this.#pending.watch(this.#probe.run());
    this.#pending.watch(this.#recordReceivedFailures());
    this.#begin();
    this.#admit();
    while (!this.#isOver()) {
      const mayBegin = () =>
        this.#roster.hasAdmitted && this.#budget.places > 0 && !this.#pause.isPaused && !this.#budget.isFull;
      await condition(() => mayBegin() || this.#isOver() || this.#pending.hasFailed || this.#budget.canContinueAsNew);
      this.#pending.throwIfFailed();
      if (this.#budget.canContinueAsNew && !this.#isOver()) {
        await this.#rest();
        return false;
      }
      for (const index of this.#roster.begin(this.#budget.places)) this.#pending.track(this.#beginChild(index));
    }
    await condition(() => this.#pending.isSettled);
    // The last record may fail after the loop has ended.
    this.#pending.throwIfFailed();
    return true;
  }

  /**
   * Records failures as they arrive, so that a later verdict finds the failure recorded and changes nothing. Failures
   * that arrive during a write are recorded together. The last ones are recorded at the end of this history.
   */
  async #recordReceivedFailures(): Promise<void> {
    for (;;) {
      await condition(() => this.#ledger.hasFailures || this.#resting || this.#isOver());
      if (this.#resting || this.#isOver()) return;
      const recorded = this.recordFailures();
      this.#pending.track(recorded);
      await recorded;
    }
  }

  /** All rollouts have ended: records the last failures and the manifest. */
  async close(): Promise<void> {
    await this.recordFailures();
    await this.#records.ended(this.groups);
  }

  /** Records the rollouts that were not graded. */
  async recordFailures(): Promise<void> {
    await this.#records.failed(this.#ledger.takeFailures());
  }

  /**
   * Cancels the running rollouts by id: Temporal itself cancels only the first history of each, which a rollout of many
   * turns has left. Rollouts that do not end have their own deadlines.
   */
  async cancel(): Promise<void> {
    this.#resting = true;
    const open = this.#roster.running;
    this.#roster.forgetAdmitted();
    await this.#children.cancel(open);
    await condition(() => !open.some((index) => this.#roster.isOpen(index)), END_WITHIN);
  }

  #show(): void {
    const { ended, passed } = this.#ledger.counts;
    const why = this.#pause.held ? [inCode(tripLine(this.#pause.held, this.#input.run))] : [];
    setCurrentDetails([...why, `${ended} of ${this.total} rollouts ended, ${passed} passed`].join('\n\n'));
  }

  #isOver(): boolean {
    return this.#ledger.counts.ended === this.total;
  }

  /** Continues what an earlier history left: signals to send, and rollouts that were given up but may still run. */
  #continueEarlier(): void {
    this.#pause.relay.set(this.#pause.isPaused);
    const { givenUp } = this.#roster;
    if (givenUp.length > 0) this.#pending.track(this.#endSoon(givenUp));
  }

  /** Waits for work in flight, so that no signal, start or record is lost with this history. */
  async #rest(): Promise<void> {
    this.#resting = true;
    const settled = () => this.#pending.isSettled && this.#pause.relay.isSettled;
    do {
      if (!settled()) this.#handOn();
      await condition(settled);
      await this.recordFailures();
    } while (!settled());
    this.#pending.throwIfFailed();
  }

  /** Leaves work to the next history that adds events for each open rollout, however many there are. */
  #handOn(): void {
    this.#handsOn = true;
    this.#pause.relay.rest();
    this.#probe.rest();
  }

  /** Starts the groups that are needed now, after those that were started before. */
  #begin(): void {
    if (this.#resting || this.#expired) return;
    const from = this.groups;
    const count = this.#sampling.admit();
    if (count === 0) return;
    this.#dispatched = this.#dispatched.then(() => this.#dispatch(from, from + count));
    this.#pending.track(this.#dispatched);
  }

  /** Records rollouts as dispatched before any of them runs. */
  async #dispatch(from: number, to: number): Promise<void> {
    await this.#records.dispatched(from, to);
    this.#roster.add(beginOrder(this.#input, from, to, this.#order));
    if (this.#expired) this.#giveUp(this.#children.members(from, to), 'deadline');
    this.#admit();
  }

  /** Called once for each rollout. The last end of a group may start other groups. */
  #count(group: number, result: RolloutResult): GroupTally {
    const tally = this.#ledger.end(group, result);
    const drawsByNeed = this.#input.wanted !== undefined || this.#input.replace !== undefined;
    if (tally.ended === this.#input.samples && drawsByNeed) {
      this.#sampling.groupEnded(varies(tally, this.#input.samples));
      this.#begin();
    }
    return tally;
  }

  /** Admits what may continue now: at once, so that a stage without a gate is entered before its end is reported. */
  #admit(): void {
    if (this.#pause.isPaused || this.#resting) return;
    for (const { rollout, stage } of this.#roster.admit()) {
      if (stage !== 'init' && this.#gates.includes(stage)) this.#pending.track(this.#children.proceed(rollout, stage));
    }
  }

  async #beginChild(index: number): Promise<void> {
    this.#started += 1;
    const id = this.#children.id(index);
    const outlives = this.#budget.begin(index);
    try {
      const child = await this.#children.start(index, outlives);
      this.#pause.relay.add(id, child);
      this.#pending.watch(this.#follow(index, child.result()));
    } catch (error) {
      this.rolloutEnded(this.#children.unfinished(index, error));
    } finally {
      this.#budget.answered();
    }
  }

  async #follow(index: number, end: Promise<RolloutResult>): Promise<void> {
    this.rolloutEnded(await end.catch((error: unknown) => this.#children.unfinished(index, error)));
  }

  /** Gives up rollouts that have not ended when the batch's time is over; a pause stops the clock. */
  async #expire(): Promise<void> {
    const clock = this.#countdown;
    if (!clock) return;
    const stops = () => this.#pause.isPaused || this.#resting || this.#isOver();
    while (clock.leftMs(Date.now()) > 0) {
      await condition(() => !this.#pause.isPaused);
      clock.start(Date.now());
      await condition(stops, clock.leftMs(Date.now()));
      clock.stop(Date.now());
      if (this.#resting || this.#isOver()) return;
    }
    this.#expired = true;
    this.#giveUp(this.#children.members(0, this.groups), 'deadline');
  }

  /** Rollouts that no longer run have ended without a report. */
  async #ask(members: readonly number[]): Promise<void> {
    const asked = Promise.all(
      members.map(async (index) => {
        if (!(await this.#children.isGone(index))) return;
        this.rolloutEnded(
          this.#children.unfinished(
            index,
            new Error('The rollout ended without a result: it was terminated, or its workflow failed'),
          ),
        );
      }),
    ).then(() => undefined);
    this.#pending.track(asked);
    await asked;
  }

  /** Gives up `members` that have not ended: those that have not started never start, running ones are cancelled. */
  #giveUp(members: readonly number[], reason: GivenUpReason): void {
    const { withdrawn, unbegun, running } = this.#roster.giveUp(members, reason);
    for (const index of withdrawn)
      this.#count(this.#children.group(index), this.#roster.withdrawn(index, this.#children.unfinished(index, '')));
    for (const index of unbegun) this.rolloutEnded(this.#children.unfinished(index, ''));
    if (running.length > 0) this.#pending.track(this.#endSoon(running));
  }

  async #endSoon(members: readonly number[]): Promise<void> {
    for (const chunk of chunksOf(members)) {
      if (this.#handsOn) return;
      await this.#children.cancel(chunk);
    }
    const left = () => members.filter((index) => this.#roster.isOpen(index));
    await condition(() => left().length === 0 || this.#handsOn, END_WITHIN);
    if (this.#handsOn) return;
    for (const index of left()) this.rolloutEnded(this.#children.unfinished(index, ''));
  }
}
