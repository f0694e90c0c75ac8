/**
 * Attention, norms and rotary embedding of queries and keys, by blocks of sequences: rows that are padded already are one
 * block; those of a packed row are spread into padded rows of like length and gathered again, so that none sees another.
 */

import { tf } from '../../tensorflow.ts';
import { type AttentionSaved, type AttentionShape, attend, attendGradient, attentionShape } from './attention.ts';
import { type ModelConfig, hasHeadNorms } from '../config.ts';
import { type Tensor, gatherRows, scatterRows, slice } from './kernels.ts';
import type { LayerWeights } from '../policy.ts';
import { type RotaryContext, type RotarySaved, type RotaryTables, rotate, rotateGradient } from './rotary.ts';

/** Sequences of like length in a packed row, where they follow those of the blocks before. */
export interface PackedBlock {
  /** Attention sees them as so many rows of so many columns, padded on the right. */
  readonly batch: number;
  readonly length: number;
  /** Where each of their tokens stands there: row · length + column, ascending. */
  readonly places: Int32Array;
}

/** Tokens that attention sees together, as right-padded rows. */
export interface Block {
  readonly rotary: RotaryContext;
  readonly attention: AttentionShape;
  /** Of a packed row: the first of its tokens, how many, and where they stand in the rows, [count]. */
  readonly packed: { readonly from: number; readonly count: number; readonly places: Tensor } | undefined;
}

export interface BlockSaved {
  readonly rotary: RotarySaved;
  readonly attention: AttentionSaved;
}

/** The blocks of a pass. `bound`: the largest |score| there can be. */
export function blocksOf(
  config: ModelConfig,
  rows: { readonly batch: number; readonly length: number; readonly blocks?: readonly PackedBlock[] },
  tables: RotaryTables,
  epsilon: Tensor,
  bound: number,
): Block[] {
  const block = (batch: number, length: number, packed: Block['packed']): Block => ({
    rotary: {
      batch,
      length,
      headDim: config.headDim,
      headNorms: hasHeadNorms(config),
      epsilon,
      tables: { ...tables.first(length), swap: tables.swap },
    },
    attention: attentionShape(config, batch, length, bound),
    packed,
  });
  if (rows.blocks === undefined) return [block(rows.batch, rows.length, undefined)];
  let from = 0;
  return rows.blocks.map(({ batch, length, places }) => {
    const packed = { from, count: places.length, places: tf.tensor1d(places, 'int32') };
    from += places.length;
    return block(batch, length, packed);
  });
}

/** A block's tokens [tokens, width] in their padded rows, [batch · length, width]. */
function spreadBlock(x: Tensor, { packed, attention }: Block, width: number): Tensor {
  if (packed === undefined) return x;
  const own = slice(x, [packed.from, 0], [packed.count, -1]);
  return scatterRows(own, packed.places, attention.batch * attention.length, width);
}

/** The opposite: the padding goes. */
const gatherBlock = (x: Tensor, { packed }: Block): Tensor => (packed === undefined ? x : gatherRows(x, packed.places));

/** `qk` and `v` [tokens, width] of all blocks → [the block's tokens, heads · headDim]. */
export function attendBlock(
  qk: Tensor,
  v: Tensor,
  weights: LayerWeights,
  block: Block,
): { out: Tensor; saved: BlockSaved } {
  const { heads, kvHeads, headDim } = block.attention.config;
  const { y, saved: rotary } = rotate(
    spreadBlock(qk, block, (heads + kvHeads) * headDim),
    weights.headWeights,
    block.rotary,
  );
  const { out, saved: attention } = attend(y, spreadBlock(v, block, kvHeads * headDim), block.attention);
  return { out: gatherBlock(out, block), saved: { rotary, attention } };
}

export interface BlockGradient {
  /** Of the block's rows of `qk` and `v`. */
  readonly dQk: Tensor;
  readonly dV: Tensor;
  readonly straight: Tensor;
  readonly swapped: Tensor;
}

/** `dOut`: [tokens, heads · headDim] of all blocks. */
export function attendBlockGradient(dOut: Tensor, saved: BlockSaved, block: Block): BlockGradient {
  const { heads, headDim } = block.attention.config;
  const { dy, dv } = attendGradient(spreadBlock(dOut, block, heads * headDim), saved.attention, block.attention);
  const { dProjected, straight, swapped } = rotateGradient(dy, saved.rotary, block.rotary);
  return { dQk: gatherBlock(dProjected, block), dV: gatherBlock(dv, block), straight, swapped };
}
