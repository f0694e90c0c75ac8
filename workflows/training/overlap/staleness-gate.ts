/**
 * Which units of rollouts begin, and which of them a step trains on: no unit is ever trained on by a policy that is more
 * than its bound of updates newer than the one it began with, every unit is trained on once, and none is thrown away.
 * A pure scheduler. It holds the bound by admission, as AReaL does (Fu et al. 2025, eq. 3): a unit begins only if all
 * that have begun can still be trained on in time, and a step takes first what a later one could not take any more.
 */

import type { AdmissionState, Unit } from '../../../protocol/admission.ts';

export interface StalenessLimits {
  /** Steps of the run. */
  readonly steps: number;
  /** Updates between the policy that a unit begins with and the one that is trained on it, at most. */
  readonly maxStaleness: number;
  /** Units that run at once. */
  readonly parallel: number;
}

export const NOTHING_BEGUN: AdmissionState = { begun: 0, running: [], ended: [] };

type Dated = Pick<Unit, 'lastStep'>;

/** How many must have been trained on after step `by`. */
function due(units: readonly Dated[], by: number): number {
  return units.filter(({ lastStep }) => lastStep <= by).length;
}

function datesOf(units: readonly Dated[]): number[] {
  return [...new Set(units.map(({ lastStep }) => lastStep))].sort((a, b) => a - b);
}

/**
 * What `step` trains on: those that had ended first, but for what must not wait for a later step; `null` while it must
 * wait for more to end.
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

/** What was taken for a step before: those, in whatever order they end. */
function chosenAgain({ ended }: AdmissionState, owed: ReadonlySet<number>): ReadonlySet<Unit> | null {
  const chosen = ended.filter(({ number }) => owed.has(number));
  return chosen.length === owed.size ? new Set(chosen) : null;
}

export class StalenessGate {
  readonly #perStep: number;
  #begun: number;
  #running: readonly Unit[];
  #ended: readonly Unit[];
  /** What the step under way trains on. */
  #taken: readonly Unit[] = [];
  /** What the next step has trained on already; empty: nothing. */
  #owed: ReadonlySet<number>;

  /** `perStep`: units that a step trains on. `owed`: by number, those of an update that was made and whose step is not on record. */
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

  /** To be kept between two steps: what a step has taken is not in it. */
  get state(): AdmissionState {
    return { begun: this.#begun, running: this.#running, ended: this.#ended };
  }

  /** Units that the next step cannot do without, beside those that have begun. */
  get lacking(): number {
    return Math.max(0, this.#perStep - this.#running.length - this.#ended.length);
  }

  /** Begins as many units with `policy` as may begin now, `most` at most, and returns them. */
  admit(
    policy: Unit['policy'],
    { steps, maxStaleness, parallel }: StalenessLimits,
    most = Number.POSITIVE_INFINITY,
  ): Unit[] {
    const { version } = policy;
    const lastStep = version + maxStaleness + 1;
    const admitted: Unit[] = [];
    while (admitted.length < most && this.#running.length < parallel && this.#hasRoom(version, lastStep, steps)) {
      const unit = { number: ++this.#begun, policy: { dir: policy.dir, version }, lastStep };
      this.#running = [...this.#running, unit];
      admitted.push(unit);
    }
    return admitted;
  }

  /** Whether one more that must be trained on by `lastStep` leaves every other one its place in time. */
  #hasRoom(version: number, lastStep: number, steps: number): boolean {
    const taken = this.#taken.map(() => ({ lastStep: version + 1 }));
    const open: Dated[] = [...taken, ...this.#running, ...this.#ended, { lastStep }];
    if (open.length > (steps - version) * this.#perStep) return false;
    return datesOf(open).every((date) => date < lastStep || due(open, date) <= (date - version) * this.#perStep);
  }

  /** The unit's rollouts have ended. Told again, or of a unit that does not run, it changes nothing. */
  end(number: number): void {
    const unit = this.#running.find((one) => one.number === number);
    if (!unit) return;
    this.#running = this.#running.filter((one) => one !== unit);
    this.#ended = [...this.#ended, unit];
  }

  /** Whether `step` has what it trains on. */
  isReady(step: number): boolean {
    return this.#choose(step) !== null;
  }

  /** What `step` trains on, by number. Errors: a `TypeError` where it is not ready. */
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

  /** The step that was taken for is on record. */
  trained(): void {
    this.#taken = [];
  }
}
