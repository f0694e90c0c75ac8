/**
 * What a batch knows of its rollouts' ends: each is counted once, by itself and in its group. It holds numbers, not
 * results, so that it stays small however large the batch is; only failures are kept until they are recorded.
 */

import type { FailureClass } from '../../protocol/finish-reason.ts';
import type { BatchResult } from '../../protocol/batch.ts';
import type { RolloutResult } from '../../protocol/rollout.ts';

/** The counts of one group that is not complete yet. */
export interface GroupTally {
  readonly ended: number;
  readonly graded: number;
  /** The lowest graded reward, and the highest; absent: none. */
  readonly least?: number;
  readonly most?: number;
}

/** A group and its tally, in few bytes: `most` is left out if it equals `least`. */
type CarriedGroup = readonly [group: number, ended: number, graded: number, least?: number, most?: number];

export interface LedgerProgress extends Pick<BatchResult, 'graded' | 'passed' | 'rewardSum' | 'failures' | 'said'> {
  readonly ended: number;
  readonly groups: readonly CarriedGroup[];
  /** Failures that arrived while others were recorded; absent: none. */
  readonly unrecorded?: readonly RolloutResult[];
}

/**
 * Rewards that differ by at most this are equal: a judge's may differ in their last digits (SkyRL's
 * `zero_variance_filter_tol`).
 */
export const SAME_REWARD = 1e-6;

/**
 * True if the graded members of a group did not all get the same reward. A group of one member varies if it is graded.
 */
export function varies({ least, most }: Pick<GroupTally, 'least' | 'most'>, samples: number): boolean {
  if (least === undefined || most === undefined) return false;
  return samples === 1 || most - least > SAME_REWARD;
}

function carried([group, { ended, graded, least, most }]: readonly [number, GroupTally]): CarriedGroup {
  if (least === undefined || most === undefined) return [group, ended, graded];
  return least === most ? [group, ended, graded, least] : [group, ended, graded, least, most];
}

function tallied([group, ended, graded, least, most = least]: CarriedGroup): [number, GroupTally] {
  return [group, { ended, graded, ...(least === undefined || most === undefined ? {} : { least, most }) }];
}

export class BatchLedger {
  readonly #samples: number;
  #ended: number;
  #graded: number;
  #passed: number;
  #rewardSum: number;
  readonly #failures: Partial<Record<FailureClass, number>>;
  /** The message of the last failure of each class. */
  readonly #said: Partial<Record<FailureClass, string>>;
  readonly #groups: Map<number, GroupTally>;
  #unrecorded: RolloutResult[];

  /** `samples`: members of a group. */
  constructor(
    samples: number,
    {
      ended = 0,
      graded = 0,
      passed = 0,
      rewardSum = 0,
      failures = {},
      said = {},
      groups = [],
      unrecorded = [],
    }: Partial<LedgerProgress> = {},
  ) {
    this.#samples = samples;
    this.#ended = ended;
    this.#graded = graded;
    this.#passed = passed;
    this.#rewardSum = rewardSum;
    this.#failures = { ...failures };
    this.#said = { ...said };
    this.#groups = new Map(groups.map(tallied));
    this.#unrecorded = [...unrecorded];
  }

  /** Carried over to another history. */
  get progress(): LedgerProgress {
    const { ended, graded, passed, rewardSum, failures } = this.counts;
    return {
      ended,
      graded,
      passed,
      rewardSum,
      failures,
      said: { ...this.#said },
      groups: [...this.#groups].map(carried),
      ...(this.#unrecorded.length > 0 && { unrecorded: this.#unrecorded }),
    };
  }

  get counts() {
    const [ended, graded, passed, rewardSum] = [this.#ended, this.#graded, this.#passed, this.#rewardSum];
    return { ended, graded, passed, failed: ended - graded, rewardSum, failures: { ...this.#failures } };
  }

  get said(): Readonly<Partial<Record<FailureClass, string>>> {
    return this.#said;
  }

  /** Counts an end; returns the counts of its group. */
  end(group: number, result: RolloutResult): GroupTally {
    this.#ended += 1;
    const graded = result.status === 'graded';
    if (graded) {
      this.#graded += 1;
      if (result.passed) this.#passed += 1;
      this.#rewardSum += result.reward ?? 0;
    } else this.#unrecorded.push(result);
    if (result.failure) {
      this.#failures[result.failure] = (this.#failures[result.failure] ?? 0) + 1;
      this.#said[result.failure] = result.message ?? '';
    }
    return this.#inGroup(group, graded ? (result.reward ?? 0) : undefined);
  }

  /** True if some failures were not taken yet. */
  get hasFailures(): boolean {
    return this.#unrecorded.length > 0;
  }

  /** Failures that were not taken before, in the order in which they came. */
  takeFailures(): RolloutResult[] {
    const taken = this.#unrecorded;
    this.#unrecorded = [];
    return taken;
  }

  #inGroup(group: number, reward: number | undefined): GroupTally {
    const before = this.#groups.get(group) ?? { ended: 0, graded: 0 };
    const ended = before.ended + 1;
    const after: GroupTally =
      reward === undefined
        ? { ...before, ended }
        : {
            ended,
            graded: before.graded + 1,
            least: Math.min(before.least ?? reward, reward),
            most: Math.max(before.most ?? reward, reward),
          };
    if (ended < this.#samples) this.#groups.set(group, after);
    else this.#groups.delete(group);
    return after;
  }
}
