/**
 * Where each rollout of a batch stands, by its number: waiting, let in, under way, given up, ended. Pure: it says what
 * may begin and what has to be ended, and the batch does it. A rollout ends once.
 */

import type { RolloutResult } from '../../protocol/rollout.ts';
import { type Admission, type Caps, Dispatcher, type DispatcherProgress } from './dispatcher.ts';
import { type Packed, packed, unpacked } from './packed.ts';
import { GIVEN_UP, type GivenUpReason } from './stragglers.ts';

export interface RosterProgress {
  readonly places: DispatcherProgress;
  /** Let in, not begun yet. */
  readonly admitted: Packed;
  /** No longer waited for, and not ended yet. */
  readonly givenUp: ReadonlyArray<readonly [number, GivenUpReason]>;
}

/** What was given up, by what it takes to end it. */
export interface GivenUp {
  /** Never let in: they are over. */
  readonly withdrawn: readonly number[];
  /** Let in and not begun: they end without a beginning. */
  readonly unbegun: readonly number[];
  /** Under way: they are to be cancelled. */
  readonly running: readonly number[];
}

export class Roster {
  readonly #dispatcher: Dispatcher;
  readonly #admitted: number[];
  readonly #givenUp: Map<number, GivenUpReason>;

  constructor(caps: Caps, progress?: RosterProgress) {
    // In a workflow its clock, the same in every replay.
    this.#dispatcher = new Dispatcher(caps, progress?.places, Date.now);
    this.#admitted = unpacked(progress?.admitted ?? []);
    this.#givenUp = new Map(progress?.givenUp);
  }

  get progress(): RosterProgress {
    return { places: this.#dispatcher.progress, admitted: packed(this.#admitted), givenUp: [...this.#givenUp] };
  }

  /** Some were let in and have not begun. */
  get hasAdmitted(): boolean {
    return this.#admitted.length > 0;
  }

  /** Begun and not ended. */
  get running(): number[] {
    const admitted = new Set(this.#admitted);
    return this.#dispatcher.openRollouts.filter((index) => !admitted.has(index));
  }

  /** No longer waited for, and not ended yet. */
  get givenUp(): number[] {
    return [...this.#givenUp.keys()];
  }

  /** Let in and not ended. */
  isOpen(index: number): boolean {
    const place = this.#dispatcher.placeOf(index);
    return place !== undefined && place !== 'waiting' && place !== 'done';
  }

  /** More rollouts, in the order in which they are to begin. */
  add(rollouts: Iterable<number>): void {
    this.#dispatcher.add(rollouts);
  }

  /** Lets in what may go on now; returns those that enter a later stage than their first. */
  admit(): Admission[] {
    const admissions = this.#dispatcher.admissions();
    for (const { rollout, stage } of admissions) if (stage === 'init') this.#admitted.push(rollout);
    return admissions.filter(({ stage }) => stage !== 'init');
  }

  /** So many of those that were let in begin now. */
  begin(count: number): number[] {
    return this.#admitted.splice(0, count);
  }

  /** Those that were let in and have not begun never do. */
  forgetAdmitted(): void {
    this.#admitted.splice(0);
  }

  /** Whether this is news: a restarted attempt reports the end of a stage again, and kept its place. */
  stageEnded(index: number, stage: 'init' | 'agent-run'): boolean {
    if (this.#dispatcher.placeOf(index) !== stage) return false;
    this.#dispatcher.stageEnded(index, stage);
    return true;
  }

  /** Its place is free; returns what counts of its result. */
  ended(index: number, given: RolloutResult): RolloutResult {
    const result = this.#asGivenUp(index, given);
    this.#dispatcher.ended(index);
    return result;
  }

  /** What has not ended of `members` is no longer waited for; what was given up before stays so. */
  giveUp(members: readonly number[], reason: GivenUpReason): GivenUp {
    const withdrawn: number[] = [];
    const unbegun: number[] = [];
    const running: number[] = [];
    for (const index of members) {
      const place = this.#dispatcher.placeOf(index);
      if (place === undefined || place === 'done' || this.#givenUp.has(index)) continue;
      this.#givenUp.set(index, reason);
      if (place === 'waiting') {
        this.#dispatcher.withdrawn(index);
        withdrawn.push(index);
      } else (this.#takeBack(index) ? unbegun : running).push(index);
    }
    return { withdrawn, unbegun, running };
  }

  /** The result of one that was withdrawn. */
  withdrawn(index: number, given: RolloutResult): RolloutResult {
    return this.#asGivenUp(index, given);
  }

  #takeBack(index: number): boolean {
    const at = this.#admitted.indexOf(index);
    if (at >= 0) this.#admitted.splice(at, 1);
    return at >= 0;
  }

  /** A rollout that was graded in time counts all the same. */
  #asGivenUp(index: number, result: RolloutResult): RolloutResult {
    const reason = this.#givenUp.get(index);
    this.#givenUp.delete(index);
    return reason === undefined || result.status === 'graded'
      ? result
      : { ...result, failure: reason, message: GIVEN_UP[reason] };
  }
}
