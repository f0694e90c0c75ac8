/**
 * Dynamic sampling by replacement (POLARIS: An et al. 2025): a batch is drawn whole, and drawn again while too few of its
 * groups vary in reward. A pure scheduler: it decides how many groups have begun, nothing else.
 */

import type { SamplingProgress } from './dynamic-sampling.ts';
import type { ReplaceSettings } from '../messages/batch.ts';

export class ReplaceSampling {
  readonly #candidates: number;
  readonly #settings: ReplaceSettings;
  #begun: number;
  #ended: number;
  /** Of the batch that was drawn last: those before it have ended. */
  #varied: number;

  constructor(candidates: number, settings: ReplaceSettings, { begun, ended, varied }: SamplingProgress = { begun: 0, ended: 0, varied: 0 }) {
    this.#candidates = candidates;
    this.#settings = settings;
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

  /** Lets in the next batch where the last one has ended without enough; returns how many groups begin. */
  admit(): number {
    const { groups, minReplaceRatio } = this.#settings;
    const enough = this.#begun > 0 && this.#varied > minReplaceRatio * groups;
    if (this.#ended < this.#begun || enough) return 0;
    const count = Math.min(groups, this.#candidates - this.#begun);
    this.#begun += count;
    this.#varied = 0;
    return count;
  }

  groupEnded(varied: boolean): void {
    this.#ended += 1;
    if (varied) this.#varied += 1;
  }
}
