/**
 * The fields of VeRL's `DataProto`: `part-N.safetensors` has its tensors, `part-N.json` the rest. Prompts are padded on
 * the left, responses on the right, to the longest of the part. A row is a sequence.
 */

import { join } from 'node:path';
import { writeWhole } from '../export-files.ts';
import type { SequencedRollout } from '../exported-rollout.ts';
import { MASKED_REASONS, type SkyrlOutput, type SkyrlSequence, skyrlOutput, tokenRewards } from '../skyrl/output.ts';
import { type ExportedGroup, partName, type Placed, type SequenceWriter } from './format.ts';
import { type Matrix, writeMatrices } from './safetensors-file.ts';
import { asTrajectory } from './skyrl.ts';

/** Cells of a part's padded rows, at most: eight tensors of up to eight bytes a cell. */
const PART_CELLS = 2_000_000;

export interface VerlSettings {
  /** Fills up rows. It is masked everywhere. */
  readonly padTokenId: number;
  /** Tokens of a response, at most; the rest is cut off. */
  readonly maxResponseTokens: number;
}

interface Row extends SkyrlSequence {
  /** Of `response`: 1 for each token that is trained. */
  readonly lossMask: readonly number[];
  readonly reward: number;
  /** Equal for the rollouts of one group. */
  readonly uid: string;
  readonly rollout: string;
  readonly finish_reason: string;
  readonly masked: string | null;
}

function rowsOf(rollout: SequencedRollout, uid: string, most: number): Row[] {
  const { outcome, finishReason, masked, sequences } = rollout;
  const isMasked = masked !== null || MASKED_REASONS.has(finishReason);
  return sequences.map(({ prompt, response, mask, logprobs, turnRewards }) => ({
    prompt,
    response: response.slice(0, most),
    mask: mask.slice(0, most),
    ...(turnRewards && { turnRewards }),
    logprobs: logprobs && logprobs.slice(0, most),
    lossMask: isMasked ? response.slice(0, most).map(() => 0) : mask.slice(0, most),
    reward: outcome.reward ?? 0,
    uid,
    rollout: outcome.rollout,
    finish_reason: finishReason,
    masked,
  }));
}

const widest = (lengths: readonly number[]): number => lengths.reduce((most, one) => Math.max(most, one), 0);

/** A matrix of whole numbers whose row `i` is `valuesOf(i)`, written from column `startOf(i)` on. */
function integers(
  rows: number,
  width: number,
  fill: number,
  valuesOf: (row: number) => readonly number[],
  startOf: (row: number) => number = () => 0,
): Matrix {
  const data = new BigInt64Array(rows * width).fill(BigInt(fill));
  for (let row = 0; row < rows; row += 1) {
    const start = row * width + startOf(row);
    for (const [i, value] of valuesOf(row).entries()) data[start + i] = BigInt(value);
  }
  return { dtype: 'I64', shape: [rows, width], data };
}

/** A matrix of `rows` whose row `i` begins with `valuesOf(i)`. */
function floats(rows: number, width: number, valuesOf: (row: number) => readonly number[]): Matrix {
  const data = new Float32Array(rows * width);
  for (let row = 0; row < rows; row += 1) data.set(valuesOf(row), row * width);
  return { dtype: 'F32', shape: [rows, width], data };
}

/**
 * The tensors of a part. `rm_scores` are rewards by token: of each turn that has one at its last token, the rest of the
 * row's at the last sampled one. `rollout_log_probs` is there if every row has log-probabilities.
 */
export function verlTensors(
  rows: readonly SkyrlSequence[],
  { lossMasks, rewards }: { lossMasks: ReadonlyArray<readonly number[]>; rewards: readonly number[] },
  pad: number,
): Record<string, Matrix> {
  const count = rows.length;
  const promptWidth = widest(rows.map(({ prompt }) => prompt.length));
  const responseWidth = widest(rows.map(({ response }) => response.length));
  const width = promptWidth + responseWidth;
  const of = (row: number): SkyrlSequence => rows[row] ?? { prompt: [], response: [], mask: [], logprobs: null };
  const left = (row: number): number => promptWidth - of(row).prompt.length;
  const full = (row: number): readonly number[] => [...of(row).prompt, ...of(row).response];
  const positions = (row: number): readonly number[] => {
    const real = full(row).length;
    // As cumsum(attention_mask) - 1, not below 0: padding on the right repeats the last position.
    return Array.from({ length: width - left(row) }, (_, i) => Math.min(i, Math.max(0, real - 1)));
  };
  const tensors: Record<string, Matrix> = {
    prompts: integers(count, promptWidth, pad, (row) => of(row).prompt, left),
    responses: integers(count, responseWidth, pad, (row) => of(row).response),
    response_mask: integers(count, responseWidth, 0, (row) => lossMasks[row] ?? []),
    input_ids: integers(count, width, pad, full, left),
    attention_mask: integers(count, width, 0, (row) => full(row).map(() => 1), left),
    position_ids: integers(count, width, 0, positions, left),
    rm_scores: floats(count, responseWidth, (row) => tokenRewards(of(row), rewards[row] ?? 0)),
  };
  if (!rows.every(({ logprobs }) => logprobs !== null)) return tensors;
  return { ...tensors, rollout_log_probs: floats(count, responseWidth, (row) => of(row).logprobs ?? []) };
}

function columnsOf(rows: readonly Row[]) {
  return {
    rewards: rows.map(({ reward }) => reward),
    uid: rows.map(({ uid }) => uid),
    rollout: rows.map(({ rollout }) => rollout),
    finish_reason: rows.map((row) => row.finish_reason),
    masked: rows.map(({ masked }) => masked),
  };
}

export function verlWriter(folder: string, { padTokenId, maxResponseTokens }: VerlSettings): SequenceWriter {
  let number = 0;
  let groups: Array<ExportedGroup<SequencedRollout>> = [];
  let rows: Row[] = [];
  const cellsOf = (all: readonly Row[]): number =>
    all.length * (widest(all.map(({ prompt }) => prompt.length)) + widest(all.map(({ response }) => response.length)));
  const metricsOf = (): SkyrlOutput['rollout_metrics'] =>
    skyrlOutput(groups.flatMap(({ rollouts, name }) => rollouts.map((one) => asTrajectory(one, name)))).rollout_metrics;
  const flush = async (): Promise<void> => {
    if (rows.length === 0) return;
    const lossMasks = rows.map(({ lossMask }) => lossMask);
    const rewards = rows.map(({ reward }) => reward);
    const meta = { rollout_metrics: metricsOf(), pad_token_id: padTokenId };
    await writeMatrices(
      join(folder, `${partName(number)}.safetensors`),
      verlTensors(rows, { lossMasks, rewards }, padTokenId),
    );
    const document = { non_tensors: columnsOf(rows), meta_info: meta };
    await writeWhole(join(folder, `${partName(number)}.json`), JSON.stringify(document));
    [number, groups, rows] = [number + 1, [], []];
  };
  return {
    async add(group) {
      const own = group.rollouts.map((rollout) => rowsOf(rollout, group.name, maxResponseTokens));
      if (rows.length > 0 && cellsOf([...rows, ...own.flat()]) > PART_CELLS) await flush();
      groups.push(group);
      const file = partName(number);
      return own.map((some): Placed => {
        const placed = { file, first: rows.length, rows: some.length };
        rows.push(...some);
        return placed;
      });
    },
    close: flush,
  };
}
