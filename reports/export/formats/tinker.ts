/**
 * Tinker's `Datum`s, one a line: the model reads all tokens but the last, and predicts all but the first. Advantages
 * are 0 on tokens that nobody sampled, and everywhere in a masked rollout. Rewards, which a `Datum` has no place for,
 * are in a file beside it, line by line.
 */

import { join } from 'node:path';
import { UserInputError } from '../../../protocol/user-input-error.ts';
import { LineFile } from '../export-files.ts';
import type { SequencedRollout } from '../exported-rollout.ts';
import { type SkyrlSequence, tokenRewards } from '../skyrl/output.ts';
import type { Placed, SequenceWriter } from './format.ts';

const FILE = 'datums.jsonl';
const REWARDS = 'rewards.jsonl';

const tensor = (dtype: 'int64' | 'float32', data: readonly number[]) => ({ data, dtype, shape: [data.length] });

/** Errors: `TypeError` for a sequence without log-probabilities. */
export function datumOf({ prompt, response, mask, logprobs }: SkyrlSequence, advantage: number) {
  if (logprobs === null) throw new TypeError('a Datum needs log-probabilities');
  const full = [...prompt, ...response];
  const observed = prompt.map(() => 0);
  // -0 and 0 are one advantage.
  const advantages = [...observed, ...mask.map((value) => (value === 1 ? advantage : 0))];
  return {
    model_input: { chunks: [{ type: 'encoded_text', tokens: full.slice(0, -1) }] },
    loss_fn_inputs: {
      target_tokens: tensor('int64', full.slice(1)),
      logprobs: tensor('float32', [...observed, ...logprobs].slice(1)),
      advantages: tensor('float32', advantages.slice(1)),
    },
  };
}

/** The reward of each target: a turn's at its last token, the rest of `reward` at the last sampled one. */
export const rewardsOf = (sequence: SkyrlSequence, reward: number) =>
  tensor('float32', [...sequence.prompt.map(() => 0), ...tokenRewards(sequence, reward)].slice(1));

/** Reward minus the mean of the group's rollouts that are not masked; 0 for one that is. */
export function advantagesOf(rollouts: ReadonlyArray<Pick<SequencedRollout, 'masked' | 'outcome'>>): number[] {
  const valid = rollouts.filter(({ masked }) => masked === null).map(({ outcome }) => outcome.reward ?? 0);
  const mean = valid.reduce((sum, reward) => sum + reward, 0) / Math.max(1, valid.length);
  return rollouts.map(({ masked, outcome }) => (masked === null ? (outcome.reward ?? 0) - mean : 0));
}

/** Errors: `UserInputError` for a rollout whose log-probabilities nobody gave. */
function refuseUnknown({ sequences, hasLogprobs, lacksIds, outcome }: SequencedRollout): void {
  if (hasLogprobs || (sequences.length === 0 && !lacksIds)) return;
  throw new UserInputError(
    '--format',
    'tinker',
    `a Datum needs token ids and log-probabilities, and ${outcome.rollout} has none (an endpoint gave none, ` +
      'or a script was played): give another format',
  );
}

export async function tinkerWriter(folder: string): Promise<SequenceWriter> {
  const lines = await LineFile.create(join(folder, FILE));
  const rewards = await LineFile.create(join(folder, REWARDS));
  let first = 0;
  return {
    async add({ rollouts }) {
      const advantages = advantagesOf(rollouts);
      const placed: Placed[] = [];
      for (const [i, rollout] of rollouts.entries()) {
        refuseUnknown(rollout);
        for (const sequence of rollout.sequences) {
          await lines.add(datumOf(sequence, advantages[i] ?? 0));
          await rewards.add(rewardsOf(sequence, rollout.outcome.reward ?? 0));
        }
        placed.push({ file: FILE, first, rows: rollout.sequences.length });
        first += rollout.sequences.length;
      }
      return placed;
    },
    async close() {
      await lines.close();
      await rewards.close();
    },
  };
}
