/**
 * Dynamic sampling (DAPO: Yu et al. 2025, §3.2): groups whose rewards are all the same teach nothing, so a batch goes
 * on drawing groups until enough of them vary. A pure scheduler: it decides how many groups have begun, nothing else.
 */

/** Groups that are believed to vary before any has ended: one useless group alone says little. */
const PRIOR = 4;

/** Groups so far; carried over to another history. */
export interface SamplingProgress {
  readonly begun: number;
  readonly ended: number;
  readonly varied: number;
}

export class DynamicSampling {
  readonly #candidates: number;
  readonly #wanted: number;
  #begun: number;
  #ended: number;
  #varied: number;

  /** `wanted`: groups that must vary; without it, all candidates begin at once. */
  constructor(candidates: number, wanted: number | undefined, { begun, ended, varied }: SamplingProgress = { begun: 0, ended: 0, varied: 0 }) {
    this.#candidates = candidates;
    this.#wanted = wanted ?? Number.POSITIVE_INFINITY;
    this.#begun = begun;
    this.#ended = ended;
    this.#varied = varied;
  }

  get progress(): SamplingProgress {
    return { begun: this.#begun, ended: this.#ended, varied: this.#varied };
  }

  /** Groups that have begun: always the first so many candidates. */
  get begun(): number {
    return this.#begun;
  }

  /**
   * Lets in as many groups as are needed if those that run vary as often as those that have ended; returns how many.
   * At first these are the wanted ones, and never fewer run than are still wanted while there are candidates.
   */
  admit(): number {
    const before = this.#begun;
    const rate = (this.#varied + PRIOR) / (this.#ended + PRIOR);
    while (this.#begun < this.#candidates && this.#varied + (this.#begun - this.#ended) * rate < this.#wanted) this.#begun += 1;
    return this.#begun - before;
  }

  groupEnded(varied: boolean): void {
    this.#ended += 1;
    if (varied) this.#varied += 1;
  }
}
