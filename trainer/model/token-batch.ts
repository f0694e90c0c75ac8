/** Sequences side by side: right-padded rows and the positions whose next token counts, in the order of the sequences. */

import type { TokenRows } from './decoder.ts';

export interface TokenSequence {
  readonly tokens: readonly number[];
  /** 1 where a token's own log-probability counts; the first token has none, so its entry is not looked at. */
  readonly mask: readonly number[];
}

export interface TokenBatch extends TokenRows {
  /** [positions]: the token after each of them. */
  readonly labels: Int32Array;
  /** Sequence of each position, and the index of its label in its tokens. */
  readonly rowOf: Int32Array;
  readonly indexOf: Int32Array;
}

/** Lengths are rounded up to this, so that few shapes occur. */
const lengthStep = 16;

export const countTargets = ({ tokens, mask }: TokenSequence): number => {
  let count = 0;
  for (let i = 1; i < tokens.length; i++) count += mask[i] ? 1 : 0;
  return count;
};

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

/** Positions that a batch needs: of its longest sequence, padding included. */
export const longestOf = ({ length, blocks }: TokenRows): number => (blocks === undefined ? length : Math.max(...blocks.map((block) => block.length)));
