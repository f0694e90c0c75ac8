/** Filters over batches, and metrics of batches, against SkyRL's own functions. */

import { expect, test } from 'vitest';
import { filterGroups, replaceGroups, type SampledRow } from '../../../trainer/algorithms/dynamic-sampling.ts';
import { filterOverlong, keepVarying } from '../../../trainer/algorithms/filters.ts';
import {
  generatorMetrics,
  type Reward,
  totalOf,
  turnTokenCounts,
} from '../../../trainer/algorithms/generator-metrics.ts';
import { close, eachCase, type Named, type Table } from './vectors.ts';

interface ZeroVarianceCase extends Named {
  readonly rewards: readonly number[];
  readonly uids: readonly string[];
  readonly loss_masks: Table | null;
  readonly tol: number;
  readonly expected_kept: readonly number[];
}

eachCase<ZeroVarianceCase>('batch_ops.zero_variance_filter', (given, where) => {
  const counts = given.loss_masks?.map((mask) => mask.includes(1));
  const kept = keepVarying({ rewards: given.rewards, groups: given.uids, ...(counts && { counts }) }, given.tol);
  expect(kept, where).toEqual(given.expected_kept);
});

interface OverlongCase extends Named {
  readonly loss_masks: Table;
  readonly stop_reasons: readonly string[];
  readonly expected: Table;
}

eachCase<OverlongCase>('batch_ops.overlong_filtering', (given, where) => {
  expect(filterOverlong(given.loss_masks, given.stop_reasons), where).toEqual(given.expected);
});

eachCase<Named & { loss_masks: Table; expected: readonly number[] }>('batch_ops.turn_token_counts', (given, where) => {
  expect(turnTokenCounts(given.loss_masks), where).toEqual(given.expected);
});

interface MetricsCase extends Named {
  readonly rewards: readonly Reward[];
  readonly uids: readonly string[];
  readonly expected: { readonly avg_score: number; readonly pass_at_n: number; readonly mean_positive_reward: number };
}

eachCase<MetricsCase>('batch_ops.generator_metrics', (given, where) => {
  const got = generatorMetrics(given.rewards, given.uids);
  close(`${where} avg_score`, got.avgScore, given.expected.avg_score);
  close(`${where} pass_at_n`, got.passAtN, given.expected.pass_at_n);
  close(`${where} mean_positive_reward`, got.meanPositiveReward, given.expected.mean_positive_reward);
});

interface Round {
  readonly uids: readonly string[];
  readonly rewards: readonly Reward[];
  readonly response_ids: Table;
  readonly keep_sampling: boolean;
  readonly final_uids?: readonly string[];
  readonly final_response_ids?: Table;
}

interface FilterCase extends Named {
  readonly strategy: 'filter';
  readonly train_batch_size: number;
  readonly n_samples_per_prompt: number;
  readonly rounds: readonly Round[];
}

interface ReplaceCase extends Named {
  readonly strategy: 'replace';
  readonly uids: readonly string[];
  readonly rewards: readonly Reward[];
  readonly n_samples_per_prompt: number;
  readonly min_replace_ratio: number;
  readonly expected: {
    readonly keep_sampling: boolean;
    readonly unchanged_indices: readonly number[];
    readonly good_uids: readonly string[];
  };
}

function checkFilter(given: FilterCase, where: string): void {
  let kept: Array<SampledRow & { response: readonly number[] }> = [];
  for (const [i, round] of given.rounds.entries()) {
    const drawn = round.uids.map((group, row) => ({
      group,
      reward: totalOf(round.rewards[row]!),
      response: round.response_ids[row]!,
    }));
    const got = filterGroups(kept, drawn, { groups: given.train_batch_size, samples: given.n_samples_per_prompt });
    expect(got.enough, `${where} round ${i}`).toBe(!round.keep_sampling);
    kept = got.rows;
    if (round.final_uids)
      expect(
        kept.map((row) => row.group),
        `${where} groups`,
      ).toEqual(round.final_uids);
    if (round.final_response_ids)
      expect(
        kept.map((row) => row.response),
        `${where} responses`,
      ).toEqual(round.final_response_ids);
  }
}

function checkReplace(given: ReplaceCase, where: string): void {
  const drawn = given.uids.map((group, row) => ({ group, reward: totalOf(given.rewards[row]!) }));
  const { enough, rows } = replaceGroups(
    drawn,
    { least: given.min_replace_ratio, samples: given.n_samples_per_prompt },
    where,
  );
  expect(enough, where).toBe(!given.expected.keep_sampling);
  const unchanged = new Set(given.expected.unchanged_indices);
  const members = (uid: string) => given.uids.flatMap((other, row) => (other === uid ? [row] : []));
  for (const [row, from] of rows.entries()) {
    if (unchanged.has(row)) expect(from, `${where} row ${row}`).toBe(row);
    else expect(given.expected.good_uids, `${where} row ${row}`).toContain(given.uids[from]);
  }
  if (!enough) return;
  for (const uid of new Set(given.uids))
    expect(members(given.uids[rows[members(uid)[0]!]!]!), `${where} ${uid}`).toEqual(
      members(uid).map((row) => rows[row]!),
    );
}

eachCase<FilterCase | ReplaceCase>('batch_ops.dynamic_sampling', (given, where) =>
  given.strategy === 'filter' ? checkFilter(given, where) : checkReplace(given, where),
);

test('the one remaining member of a larger group does not vary; a group of one sample does', () => {
  const rows = [
    { group: 'a', reward: 1 },
    { group: 'a', reward: 0 },
    { group: 'b', reward: 1 },
  ];
  const kept = (samples: number) => filterGroups([], rows, { groups: 2, samples }).rows.map(({ group }) => group);
  expect(kept(2)).toEqual(['a', 'a']);
  expect(replaceGroups(rows, { least: 0.3, samples: 2 }, 'k').rows[2]).toBeLessThan(2);
  const single = rows.slice(1);
  expect(filterGroups([], single, { groups: 2, samples: 1 })).toEqual({ enough: true, rows: single });
  expect(replaceGroups(single, { least: 0.3, samples: 1 }, 'k')).toEqual({ enough: true, rows: [0, 1] });
});
