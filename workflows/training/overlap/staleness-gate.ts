/**
 * Decides which units of rollouts start, and which of them a step trains on. The policy that trains on a unit is newer
 * than the policy with which the unit started by a bounded number of updates. Every unit is trained on once, and none
 * is discarded. A pure scheduler. It keeps the bound by admission, as AReaL does (Fu et al. 2025, eq. 3): a unit starts
 * only if all started units can still be trained on in time, and a step first takes the units that no later step could
 * take.
 */

import type { AdmissionState, Unit } from '../../../protocol/admission.ts';

export interface StalenessLimits {
  /** Steps of the run. */
  readonly steps: number;
  /** Updates between the policy that a unit starts with and the one that is trained on it, at most. */
  readonly maxStaleness: number;
  /** Units that run at once. */
  readonly parallel: number;
}

export const NOTHING_BEGUN: AdmissionState = { begun: 0, running: [], ended: [] };

type Dated = Pick<Unit, 'lastStep'>;

/** How many of the units must be trained on by step `by`. */
function due(units: readonly Dated[], by: number): number {
  return units.filter(({ lastStep }) => lastStep <= by).length;
}

function datesOf(units: readonly Dated[]): number[] {
  return [...new Set(units.map(({ lastStep }) => lastStep))].sort((a, b) => a - b);
}

/**
 * The units that `step` trains on: first those that cannot wait for a later step, then those that ended first. `null`
 * while more units must end.
 */
function choose({ running, ended }: AdmissionState, step: number, perStep: number): ReadonlySet<Unit> | null {
  const open = [...running, ...ended];
  const chosen = new Set<Unit>();
  for (const date of datesOf(open)) {
    const needed = due(open, date) - (date - step) * perStep;
    for (const unit of ended) {
      if (due([...chosen], date) >= needed) break;
      if (unit.lastStep <= date) chosen.add(unit);
    }
    if (due([...chosen], date) < needed) return null;
  }
  for (const unit of ended) if (chosen.size < perStep) chosen.add(unit);
  return chosen.size === perStep ? chosen : null;
}

/**
 * The units that were taken for the step before the restart, in whatever order they end; `null` until all have ended.
 */
function chosenAgain({ ended }: AdmissionState, owed: ReadonlySet<number>): ReadonlySet<Unit> | null {
  const chosen = ended.filter(({ number }) => owed.has(number));
  return chosen.length === owed.size ? new Set(chosen) : null;
}

export class StalenessGate {
  readonly #perStep: number;
  #begun: number;
  #running: readonly Unit[];
  #ended: readonly Unit[];
  /** The units that the current step trains on. */
  #taken: readonly Unit[] = [];
  /** Numbers of the units that the next step has trained on already; empty: none. */
  #owed: ReadonlySet<number>;

  /**
   * `perStep`: units that a step trains on. `owed`: numbers of the units of an update that was made but whose step is
   * not recorded.
   */
  constructor(
    perStep: number,
    { begun, running, ended }: AdmissionState = NOTHING_BEGUN,
    owed: readonly number[] = [],
  ) {
    this.#perStep = perStep;
    this.#owed = new Set(owed);
    this.#begun = begun;
    this.#running = running;
    this.#ended = ended;
  }

  /** The state between two steps: it does not contain what a step has taken. */
  get state(): AdmissionState {
    return { begun: this.#begun, running: this.#running, ended: this.#ended };
  }

  /** Units that the next step still needs beside those that have started. */
  get lacking(): number {
    return Math.max(0, this.#perStep - this.#running.length - this.#ended.length);
  }

  /** Starts as many units with `policy` as may start now, `most` at most, and returns them. */
  admit(
    policy: Unit['policy'],
    { steps, maxStaleness, parallel }: StalenessLimits,
    most = Number.POSITIVE_INFINITY,
  ): Unit[] {
    const { version } = policy;
    const lastStep = version + maxStaleness + 1;
    const admitted: Unit[] = [];
    while (admitted.length < most && this.#running.length < parallel && this.#hasRoom(version, lastStep, steps)) {
      const unit = { number: ++this.#begun, policy: { uri: policy.uri, version }, lastStep };
      this.#running = [...this.#running, unit];
      admitted.push(unit);
    }
    return admitted;
  }

  /** True if one more unit, to be trained on by `lastStep`, still lets every other unit be trained on in time. */
  #hasRoom(version: number, lastStep: number, steps: number): boolean {
    const taken = this.#taken.map(() => ({ lastStep: version + 1 }));
    const open: Dated[] = [...taken, ...this.#running, ...this.#ended, { lastStep }];
    if (open.length > (steps - version) * this.#perStep) return false;
    return datesOf(open).every((date) => date < lastStep || due(open, date) <= (date - version) * this.#perStep);
  }

  /** The unit's rollouts have ended. Changes nothing if the unit does not run. */
  end(number: number): void {
    const unit = this.#running.find((one) => one.number === number);
    if (!unit) return;
    this.#running = this.#running.filter((one) => one !== unit);
    this.#ended = [...this.#ended, unit];
  }

  /** True if `step` has the units that it trains on. */
  isReady(step: number): boolean {
    return this.#choose(step) !== null;
  }

  /**
   * Takes the units that `step` trains on, in the order of their numbers. Errors: a `TypeError` if the step is not
   * ready.
   */
  take(step: number): readonly Unit[] {
    const chosen = this.#choose(step);
    if (!chosen || this.#taken.length > 0) throw new TypeError(`Step ${step} has nothing to train on yet`);
    this.#ended = this.#ended.filter((unit) => !chosen.has(unit));
    this.#taken = [...chosen].sort((a, b) => a.number - b.number);
    this.#owed = new Set();
    return this.#taken;
  }

  #choose(step: number): ReadonlySet<Unit> | null {
    return this.#owed.size > 0 ? chosenAgain(this.state, this.#owed) : choose(this.state, step, this.#perStep);
  }

  /** The current step is recorded. */
  trained(): void {
    this.#taken = [];
  }
}
