/**
 * How many of a batch's candidate groups have begun: always the first so many of them, and never one fewer than before.
 * A rule says from the counts alone how many that are; who counts does nothing else.
 */

/** Groups so far; carried over to another history. */
export interface SamplingProgress {
  readonly begun: number;
  readonly ended: number;
  readonly varied: number;
}

/** The counts once all groups that may begin now have begun. */
export type SamplingRule = (counts: SamplingProgress) => SamplingProgress;

const NONE: SamplingProgress = { begun: 0, ended: 0, varied: 0 };

export class DynamicSampling {
  readonly #rule: SamplingRule;
  #counts: SamplingProgress;

  constructor(rule: SamplingRule, { begun, ended, varied } = NONE) {
    this.#rule = rule;
    this.#counts = { begun, ended, varied };
  }

  get progress(): SamplingProgress {
    return this.#counts;
  }

  get begun(): number {
    return this.#counts.begun;
  }

  /** Lets in what may begin now; returns how many groups that are. */
  admit(): number {
    const before = this.begun;
    this.#counts = this.#rule(this.#counts);
    return this.begun - before;
  }

  groupEnded(varied: boolean): void {
    const { begun, ended, varied: before } = this.#counts;
    this.#counts = { begun, ended: ended + 1, varied: before + (varied ? 1 : 0) };
  }
}
