/** Sequences as right-padded rows, and the positions whose next token counts, in the order of the sequences. */

import type { TokenRows } from './decoder.ts';

export interface TokenSequence {
  readonly tokens: readonly number[];
  /** 1 where a token's own log-probability counts. The first token has none, so its entry is ignored. */
  readonly mask: readonly number[];
  /** As long as `tokens`: the temperature that divides each token's logits; 0 (greedy) counts as 1. Left out: all 1. */
  readonly temperatures?: readonly number[];
}

export interface TokenBatch extends TokenRows {
  /** [positions]: the token after each position. */
  readonly labels: Int32Array;
  /** The sequence of each position, and the index of its label in that sequence. */
  readonly rowOf: Int32Array;
  readonly indexOf: Int32Array;
  /** [positions]: the label's temperature; left out if all are 1, so that nothing is divided. */
  readonly temperatures?: Float32Array;
}

/** Lengths are rounded up to a multiple of this, so that few shapes occur. */
const lengthStep = 16;

export const countTargets = ({ tokens, mask }: TokenSequence): number => {
  let count = 0;
  for (let i = 1; i < tokens.length; i++) count += mask[i] ? 1 : 0;
  return count;
};

function temperatureAt(temperatures: readonly number[], i: number): number {
  const temperature = temperatures[i];
  if (temperature === undefined || !(temperature >= 0 && Number.isFinite(temperature))) {
    throw new RangeError(
      `temperatures[${i}]: ${temperature} cannot be used; give each token the temperature that it was sampled ` +
        'at, 0 (greedy) or more',
    );
  }
  return temperature === 0 ? 1 : temperature;
}

/** Temperatures of the tokens that count, in the order of the sequences. Errors: `RangeError` for an invalid one. */
export function heatOf(sequences: readonly TokenSequence[]): Pick<TokenBatch, 'temperatures'> {
  if (sequences.every(({ temperatures }) => temperatures === undefined)) return {};
  const heat = sequences.flatMap(({ tokens, mask, temperatures }) =>
    tokens.flatMap((_, i) =>
      i > 0 && mask[i] ? [temperatures === undefined ? 1 : temperatureAt(temperatures, i)] : [],
    ),
  );
  return heat.every((temperature) => temperature === 1) ? {} : { temperatures: Float32Array.from(heat) };
}

export const paddedLength = (tokens: number): number => Math.max(1, Math.ceil(tokens / lengthStep)) * lengthStep;

export function tokenBatch(sequences: readonly TokenSequence[]): TokenBatch {
  const length = paddedLength(Math.max(1, ...sequences.map(({ tokens }) => tokens.length - 1)));
  const total = sequences.reduce((sum, sequence) => sum + countTargets(sequence), 0);
  const batch = {
    batch: sequences.length,
    length,
    ids: new Int32Array(sequences.length * length),
    positions: new Int32Array(total),
    labels: new Int32Array(total),
    rowOf: new Int32Array(total),
    indexOf: new Int32Array(total),
    ...heatOf(sequences),
  };
  let at = 0;
  for (const [row, { tokens, mask }] of sequences.entries()) {
    for (let i = 0; i + 1 < tokens.length; i++) batch.ids[row * length + i] = tokens[i] ?? 0;
    for (let i = 1; i < tokens.length; i++) {
      if (!mask[i]) continue;
      batch.positions[at] = row * length + i - 1;
      batch.labels[at] = tokens[i] ?? 0;
      batch.rowOf[at] = row;
      batch.indexOf[at] = i;
      at++;
    }
  }
  return batch;
}

/** Number of positions that a batch needs: those of its longest sequence, padding included. */
export const longestOf = ({ length, blocks }: TokenRows): number =>
  blocks === undefined ? length : Math.max(...blocks.map((block) => block.length));
