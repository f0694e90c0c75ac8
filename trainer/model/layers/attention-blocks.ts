/**
 * Attention, norms and rotary embedding of queries and keys, by blocks of sequences. Padded rows are one block. The
 * sequences of a packed row are spread into padded rows, a block for each class of lengths, and gathered again, so that
 * no sequence sees another.
 */

import { tf } from '../../tensorflow.ts';
import { type AttentionSaved, type AttentionShape, attend, attendGradient, attentionShape } from './attention.ts';
import { type ModelConfig, hasHeadNorms } from '../config.ts';
import { type Tensor, gatherRows, scatterRows, slice } from './kernels.ts';
import type { LayerWeights } from '../policy.ts';
import { type RotaryContext, type RotarySaved, type RotaryTables, rotate, rotateGradient } from './rotary.ts';

/** Sequences of similar length in a packed row; they follow those of earlier blocks. */
export interface PackedBlock {
  /** Attention sees `batch` rows of `length` columns, padded on the right. */
  readonly batch: number;
  readonly length: number;
  /** The place of each token in these rows: row · length + column, ascending. */
  readonly places: Int32Array;
}

/** Tokens that attention sees together, as right-padded rows. */
export interface Block {
  readonly rotary: RotaryContext;
  readonly attention: AttentionShape;
  /** In a packed row: the block's first token, its number of tokens, and their places in the padded rows, [count]. */
  readonly packed: { readonly from: number; readonly count: number; readonly places: Tensor } | undefined;
}

export interface BlockSaved {
  readonly rotary: RotarySaved;
  readonly attention: AttentionSaved;
}

/** The blocks of a pass. `bound`: upper bound of |score|. */
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

/** The opposite: removes the padding. */
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
  /** Gradients of the block's rows of `qk` and `v`. */
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
