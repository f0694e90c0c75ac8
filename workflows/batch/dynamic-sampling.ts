/**
 * How many of a batch's candidate groups have begun: always the first so many of them, and never one fewer than before.
 * A rule says from the counts alone how many that are; who counts does nothing else.
 */

import type { BatchInput, ReplaceSettings } from '../../protocol/batch.ts';

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

/**
 * Dynamic sampling by leaving out (DAPO: Yu et al. 2025, §3.2): groups whose rewards are all the same teach nothing, so
 * a batch goes on drawing groups until enough of them vary. Pure.
 *
 * Groups that are believed to vary before any has ended: one useless group alone says little.
 */
const PRIOR = 4;

/** Without a number of groups that must vary, all candidates begin at once. */
export const allAtOnce =
  (candidates: number): SamplingRule =>
  (counts) => ({ ...counts, begun: candidates });

/**
 * As many groups run as are needed if they vary as often as those that have ended. At first these are the `wanted` ones,
 * and never fewer run than are still wanted while there are candidates.
 */
export const untilVaried =
  (candidates: number, wanted: number): SamplingRule =>
  ({ begun, ended, varied }) => {
    const rate = (varied + PRIOR) / (ended + PRIOR);
    let needed = begun;
    while (needed < candidates && varied + (needed - ended) * rate < wanted) needed += 1;
    return { begun: needed, ended, varied };
  };

/**
 * Dynamic sampling by replacement (POLARIS: An et al. 2025): a batch is drawn whole, and drawn again while too few of its
 * groups vary in reward. The next batch begins where the last one has ended without enough; `varied` is of the one that was drawn last.
 */
export const untilReplaceable =
  (candidates: number, { groups, minReplaceRatio }: ReplaceSettings): SamplingRule =>
  (counts) => {
    const { begun, ended, varied } = counts;
    const enough = begun > 0 && varied > minReplaceRatio * groups;
    const more = Math.min(groups, candidates - begun);
    return ended < begun || enough || more === 0 ? counts : { begun: begun + more, ended, varied: 0 };
  };

/** What a batch's input asks for. */
export function samplingRuleOf({
  tasks,
  wanted,
  replace,
}: Pick<BatchInput, 'tasks' | 'wanted' | 'replace'>): SamplingRule {
  if (replace) return untilReplaceable(tasks.length, replace);
  return wanted === undefined ? allAtOnce(tasks.length) : untilVaried(tasks.length, wanted);
}
