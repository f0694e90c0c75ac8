/**
 * The state of each rollout of a batch, by number: waiting, admitted, running, given up, ended. Pure: it decides what
 * may start and what must be ended, and the batch does it. A rollout ends once.
 */

import type { RolloutResult } from '../../protocol/rollout.ts';
import { type Admission, type Caps, Dispatcher, type DispatcherProgress } from './dispatcher.ts';
import { type Packed, packed, unpacked } from './packed.ts';
import { GIVEN_UP, type GivenUpReason } from './stragglers.ts';

export interface RosterProgress {
  readonly places: DispatcherProgress;
  /** Admitted, not started yet. */
  readonly admitted: Packed;
  /** No longer waited for, and not ended yet. */
  readonly givenUp: ReadonlyArray<readonly [number, GivenUpReason]>;
}

/** The rollouts that were given up, by how they are ended. */
export interface GivenUp {
  /** Never admitted: they have ended. */
  readonly withdrawn: readonly number[];
  /** Admitted and not started: they end without a start. */
  readonly unbegun: readonly number[];
  /** Running: they must be cancelled. */
  readonly running: readonly number[];
}

export class Roster {
  readonly #dispatcher: Dispatcher;
  readonly #admitted: number[];
  readonly #givenUp: Map<number, GivenUpReason>;

  constructor(caps: Caps, progress?: RosterProgress) {
    // In a workflow `Date.now` is the workflow's clock, the same in every replay.
    this.#dispatcher = new Dispatcher(caps, progress?.places, Date.now);
    this.#admitted = unpacked(progress?.admitted ?? []);
    this.#givenUp = new Map(progress?.givenUp);
  }

  get progress(): RosterProgress {
    return { places: this.#dispatcher.progress, admitted: packed(this.#admitted), givenUp: [...this.#givenUp] };
  }

  /** True if some were admitted and have not started. */
  get hasAdmitted(): boolean {
    return this.#admitted.length > 0;
  }

  /** Started and not ended. */
  get running(): number[] {
    const admitted = new Set(this.#admitted);
    return this.#dispatcher.openRollouts.filter((index) => !admitted.has(index));
  }

  /** No longer waited for, and not ended yet. */
  get givenUp(): number[] {
    return [...this.#givenUp.keys()];
  }

  /** True if it was admitted and has not ended. */
  isOpen(index: number): boolean {
    const place = this.#dispatcher.placeOf(index);
    return place !== undefined && place !== 'waiting' && place !== 'done';
  }

  /** Adds rollouts, in the order in which they are to start. */
  add(rollouts: Iterable<number>): void {
    this.#dispatcher.add(rollouts);
  }

  /** Admits what may continue now; returns those that enter a later stage than their first. */
  admit(): Admission[] {
    const admissions = this.#dispatcher.admissions();
    for (const { rollout, stage } of admissions) if (stage === 'init') this.#admitted.push(rollout);
    return admissions.filter(({ stage }) => stage !== 'init');
  }

  /** Takes at most `count` admitted rollouts, which start now. */
  begin(count: number): number[] {
    return this.#admitted.splice(0, count);
  }

  /** Admitted rollouts that have not started never start. */
  forgetAdmitted(): void {
    this.#admitted.splice(0);
  }

  /** False if the end was reported before: a restarted attempt keeps its place, and reports a stage's end again. */
  stageEnded(index: number, stage: 'init' | 'agent-run'): boolean {
    if (this.#dispatcher.placeOf(index) !== stage) return false;
    this.#dispatcher.stageEnded(index, stage);
    return true;
  }

  /** Frees its place; returns the result that counts. */
  ended(index: number, given: RolloutResult): RolloutResult {
    const result = this.#asGivenUp(index, given);
    this.#dispatcher.ended(index);
    return result;
  }

  /** Gives up the `members` that have not ended, except those that were given up before. */
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

  /** A rollout that was graded in time still counts as graded. */
  #asGivenUp(index: number, result: RolloutResult): RolloutResult {
    const reason = this.#givenUp.get(index);
    this.#givenUp.delete(index);
    return reason === undefined || result.status === 'graded'
      ? result
      : { ...result, failure: reason, message: GIVEN_UP[reason] };
  }
}
