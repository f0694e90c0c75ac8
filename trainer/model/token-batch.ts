/**
 * Sequences side by side, in right-padded rows or packed into one row without padding, and the positions whose next token
 * counts, in the order of the sequences.
 */

import type { PackedBlock, TokenRows } from './decoder.ts';

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

/** Sequences of one block of a packed row are at most twice as long as its shortest, or this long. */
const shortBlock = 128;

const blockOf = (tokens: number): number => Math.max(0, Math.ceil(Math.log2(tokens / shortBlock)));

/** Indices of the sequences, those of like length together, the longest first. */
function byLength(lengths: readonly number[]): number[][] {
  const blocks = new Map<number, number[]>();
  for (const [i, length] of lengths.entries()) {
    const members = blocks.get(blockOf(length)) ?? [];
    blocks.set(blockOf(length), [...members, i]);
  }
  return [...blocks].sort(([a], [b]) => b - a).map(([, members]) => members);
}

function packedBlock(lengths: readonly number[]): PackedBlock {
  const length = paddedLength(Math.max(...lengths));
  const places = new Int32Array(lengths.reduce((sum, one) => sum + one, 0));
  let at = 0;
  for (const [row, own] of lengths.entries()) for (let i = 0; i < own; i++) places[at++] = row * length + i;
  return { batch: lengths.length, length, places };
}

/**
 * One row of all sequences without padding. Attention alone sees them apart, in blocks of sequences of like length, so
 * that its cost is that of the sequences and not of the row; positions begin anew with each.
 */
export function packedBatch(sequences: readonly TokenSequence[]): TokenBatch {
  const lengths = sequences.map(({ tokens }) => Math.max(1, tokens.length - 1));
  const blocks = byLength(lengths);
  const starts: number[] = [];
  let length = 0;
  for (const row of blocks.flat()) {
    starts[row] = length;
    length += lengths[row] ?? 0;
  }
  const targets = sequences.flatMap(({ tokens, mask }, row) =>
    tokens.flatMap((label, i) => (i > 0 && mask[i] ? [{ position: (starts[row] ?? 0) + i - 1, label, row, index: i }] : [])),
  );
  const ids = new Int32Array(length);
  for (const [row, { tokens }] of sequences.entries()) ids.set(tokens.slice(0, Math.max(1, tokens.length - 1)), starts[row]);
  return {
    batch: 1,
    length,
    ids,
    blocks: blocks.map((members) => packedBlock(members.map((row) => lengths[row] ?? 0))),
    positions: Int32Array.from(targets, ({ position }) => position),
    labels: Int32Array.from(targets, ({ label }) => label),
    rowOf: Int32Array.from(targets, ({ row }) => row),
    indexOf: Int32Array.from(targets, ({ index }) => index),
  };
}

/** Positions that a batch needs: of its longest sequence, padding included. */
export const longestOf = ({ length, blocks }: TokenRows): number => (blocks === undefined ? length : Math.max(...blocks.map((block) => block.length)));

/** How sequences become batches: padded tokens of a pass, or with `packing` tokens without padding. */
export interface Batching {
  readonly microBatchTokens: number;
  /** Left out: false. */
  readonly packing?: boolean;
}

export const batchOf = (sequences: readonly TokenSequence[], { packing }: Pick<Batching, 'packing'>): TokenBatch =>
  packing === true ? packedBatch(sequences) : tokenBatch(sequences);
