/**
 * How many of a batch's candidate groups have started: always the first ones, and never fewer than before. A rule
 * computes the number from the counts alone; the class only counts.
 */

import type { BatchInput, ReplaceSettings } from '../../protocol/batch.ts';

/** Numbers of groups so far; carried over to another history. */
export interface SamplingProgress {
  readonly begun: number;
  readonly ended: number;
  readonly varied: number;
}

/** Returns the counts after all groups that may start now have started. */
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

  /** Admits the groups that may start now; returns how many these are. */
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
 * Dynamic sampling by filtering (DAPO: Yu et al. 2025, §3.2): groups whose rewards are all the same teach nothing, so a
 * batch draws groups until enough of them vary. Pure.
 *
 * The number of groups that are assumed to have varied before any has ended: one useless group alone is little
 * evidence.
 */
const PRIOR = 4;

/** Without a number of groups that must vary, all candidates start at once. */
export const allAtOnce =
  (candidates: number): SamplingRule =>
  (counts) => ({ ...counts, begun: candidates });

/**
 * Starts as many groups as are needed if they vary as often as those that have ended: at first `wanted` groups. While
 * there are candidates, never fewer groups run than are still wanted.
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
 * Dynamic sampling by replacement (POLARIS: An et al. 2025): `groups` groups are drawn together, and another `groups`
 * if too few of them vary in reward once they have ended. `varied` counts only those that were drawn last.
 */
export const untilReplaceable =
  (candidates: number, { groups, minReplaceRatio }: ReplaceSettings): SamplingRule =>
  (counts) => {
    const { begun, ended, varied } = counts;
    const enough = begun > 0 && varied > minReplaceRatio * groups;
    const more = Math.min(groups, candidates - begun);
    return ended < begun || enough || more === 0 ? counts : { begun: begun + more, ended, varied: 0 };
  };

/** The rule that a batch's input asks for. */
export function samplingRuleOf({
  tasks,
  wanted,
  replace,
}: Pick<BatchInput, 'tasks' | 'wanted' | 'replace'>): SamplingRule {
  if (replace) return untilReplaceable(tasks.length, replace);
  return wanted === undefined ? allAtOnce(tasks.length) : untilVaried(tasks.length, wanted);
}
