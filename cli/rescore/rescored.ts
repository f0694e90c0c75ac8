/** What a second grading changed: counts, and the pass rates of the same rollouts before and after. */

import type { Estimate } from '../../protocol/eval.ts';
import { bootstrapMean } from '../../reports/evaluation/bootstrap.ts';
import type { Grade, Regraded } from './grade-again.ts';

const BOOTSTRAP = { resamples: 1000, confidence: 0.95 };

export interface Rescored {
  readonly counts: Readonly<Record<Regraded['status'], number>>;
  /** Graded now, and not the first time. */
  readonly newlyGraded: number;
  /** Of the rollouts with both grades; means over tasks, with intervals of 95 %. `null`: there are none. */
  readonly both: {
    readonly rollouts: number;
    readonly passRate: { readonly before: Estimate | null; readonly after: Estimate | null };
    readonly meanReward: { readonly before: Estimate | null; readonly after: Estimate | null };
  };
  /** Why rollouts were not graded, with how many. */
  readonly why: Readonly<Record<string, number>>;
}

type Pair = readonly [task: string, before: Grade, after: Grade];

/** The mean over tasks of their rollouts' means. Both times the same tasks are drawn. */
function estimate(pairs: readonly Pair[], valueOf: (pair: Pair) => number): Estimate | null {
  const tasks = [...Map.groupBy(pairs, ([task]) => task).values()];
  const means = tasks.map((own) => own.reduce((sum, pair) => sum + valueOf(pair), 0) / own.length);
  return bootstrapMean(means, 'rescore', BOOTSTRAP);
}

export function rescored(rows: readonly Regraded[]): Rescored {
  const counts = { same: 0, changed: 0, failed: 0, refused: 0, skipped: 0 };
  const why: Record<string, number> = {};
  for (const row of rows) {
    counts[row.status] += 1;
    if (row.after === null) why[row.why] = (why[row.why] ?? 0) + 1;
  }
  const pairs = rows.flatMap(({ task, before, after }): Pair[] => (before && after ? [[task, before, after]] : []));
  const passes = ({ passed }: Grade): number => (passed ? 1 : 0);
  return {
    counts,
    newlyGraded: rows.filter(({ before, after }) => before === null && after !== null).length,
    both: {
      rollouts: pairs.length,
      passRate: {
        before: estimate(pairs, ([, before]) => passes(before)),
        after: estimate(pairs, ([, , after]) => passes(after)),
      },
      meanReward: {
        before: estimate(pairs, ([, before]) => before.reward),
        after: estimate(pairs, ([, , after]) => after.reward),
      },
    },
    why,
  };
}
