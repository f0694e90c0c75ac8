/**
 * The decoder's forward pass over new tokens and cached ones. A token's logits have the same bits however the batch
 * is composed: sums are matrix products (of at least two rows), `exp` and `sigmoid` see element counts that are
 * multiples of 16, norms divide by a square root, and attention adds pages of fixed length one after the other.
 */

import { type BatchPlan, pageSize } from './batch-plan.ts';
import type { KvCache } from './kv-cache.ts';
import { type Frame, type TensorId, attributes } from './raw-ops.ts';
import type { LayerConstants, SamplerModel } from './sampler-model.ts';

interface Pass {
  readonly frame: Frame;
  readonly model: SamplerModel;
  readonly cache: KvCache;
  readonly plan: BatchPlan;
  readonly positions: TensorId;
  readonly scatter: TensorId;
  readonly pages: TensorId;
  readonly chunkRows: TensorId;
  /** `[chunks, 1, queries, pageSize]` */
  readonly mask: TensorId;
}

const { elementwise, matMul, batchMatMul, batchMatMulTransposed, reshape, transpose, gather, segment, max } =
  attributes;
const splitOfTwo = attributes.splitBySize(2);

/** `scaled / sqrt(mean(x^2) + epsilon)`, over the last axis of `x`, `[rows, size]`; `mean` is `[size, 1]`. */
function rmsNormalise({ frame, model }: Pass, x: TensorId, mean: TensorId, scaled: TensorId): TensorId {
  const squares = frame.run('Square', elementwise, [x]);
  const meanSquare = frame.run('MatMul', matMul, [squares, mean], squares);
  const shifted = frame.run('AddV2', elementwise, [meanSquare, model.epsilon], meanSquare);
  const root = frame.run('Sqrt', elementwise, [shifted], shifted);
  return frame.run('RealDiv', elementwise, [scaled, root], root);
}

/** Queries `[tokens, heads * headDim]`, keys and values `[tokens * kvHeads, headDim]`; normalised, rotated, scaled. */
function project(pass: Pass, layer: LayerConstants, x: TensorId): { q: TensorId; k: TensorId; v: TensorId } {
  const { frame, model } = pass;
  const { heads, kvHeads, headDim } = model.config;
  const normalised = rmsNormalise(pass, x, model.meanOfHidden, x);
  const v = frame.run('MatMul', matMul, [normalised, layer.v]);
  const raw = frame.run('MatMul', matMul, [normalised, layer.qk], normalised);
  const factors = frame.run('GatherV2', gather, [layer.rope, pass.positions, model.integer(0)]);
  const products = frame.run('Mul', elementwise, [raw, factors], factors);
  const perHead = model.integers(-1, 2 * headDim);
  const productHeads = frame.run('Reshape', reshape, [products, perHead], products);
  const turned = frame.run('MatMul', matMul, [productHeads, model.addHalves], productHeads);
  const rawHeads = frame.run('Reshape', reshape, [raw, perHead], raw);
  const qkHeads = rmsNormalise(pass, rawHeads, model.meanOfHead, turned);
  const qk = frame.run('Reshape', reshape, [qkHeads, model.integers(-1, (heads + kvHeads) * headDim)], qkHeads);
  const [q, k] = two(
    frame.split('SplitV', splitOfTwo, [qk, model.integers(heads * headDim, kvHeads * headDim), model.integer(1)], 2),
  );
  frame.free([rawHeads, turned, qk]);
  return { q, k: perKvHead(pass, k), v: perKvHead(pass, v) };
}

function perKvHead({ frame, model }: Pass, x: TensorId): TensorId {
  const { kvHeads, headDim } = model.config;
  return kvHeads === 1 ? x : frame.run('Reshape', reshape, [x, model.integers(-1, headDim)], x);
}

function two(ids: readonly TensorId[]): [TensorId, TensorId] {
  const [a, b] = ids;
  if (a === undefined || b === undefined) throw new RangeError('two tensors wanted');
  return [a, b];
}

/** The queries that an array of `size` takes from one of `group`: all, and the first again where it is padded. */
const fromGroup = (group: number, size: number): number[] => Array.from({ length: size }, (_, i) => (i < group ? i : 0));

/** `[rows * width, heads * headDim]` as `[rows, kvHeads, queries, headDim]`. */
function groupQueries({ frame, model, plan }: Pass, q: TensorId): TensorId {
  const { heads, kvHeads, headDim } = model.config;
  const group = heads / kvHeads;
  const grouped = model.integers(-1, kvHeads, plan.width * group, headDim);
  if (kvHeads === 1 || plan.width === 1) {
    const plain = frame.run('Reshape', reshape, [q, grouped], q);
    if (plan.queries === plan.width * group) return plain;
    return frame.run('GatherV2', gather, [plain, model.integers(...fromGroup(group, plan.queries)), model.integer(2)], plain);
  }
  const apart = frame.run('Reshape', reshape, [q, model.integers(-1, plan.width, kvHeads, group * headDim)], q);
  const swapped = frame.run('Transpose', transpose, [apart, model.integers(0, 2, 1, 3)], apart);
  return frame.run('Reshape', reshape, [swapped, grouped], swapped);
}

/** The inverse of `groupQueries`. */
function ungroup({ frame, model, plan }: Pass, x: TensorId): TensorId {
  const { heads, kvHeads, headDim } = model.config;
  const group = heads / kvHeads;
  const flat = model.integers(-1, heads * headDim);
  if (plan.queries !== plan.width * group) {
    const real = frame.run('GatherV2', gather, [x, model.integers(...fromGroup(group, group)), model.integer(2)], x);
    return frame.run('Reshape', reshape, [real, flat], real);
  }
  if (kvHeads === 1 || plan.width === 1) return frame.run('Reshape', reshape, [x, flat], x);
  const apart = frame.run(
    'Reshape',
    reshape,
    [x, model.integers(-1, kvHeads, plan.width, group * headDim)],
    x,
  );
  const swapped = frame.run('Transpose', transpose, [apart, model.integers(0, 2, 1, 3)], apart);
  return frame.run('Reshape', reshape, [swapped, flat], swapped);
}

/** Takes each row's largest score off its scores: softmax does not change, and `exp` stays finite. */
function shiftScores({ frame, model, chunkRows }: Pass, scores: TensorId): TensorId {
  const perPage = frame.run('Max', max, [scores, model.integers(3)]);
  const perRow = frame.run('SegmentMax', segment, [perPage, chunkRows], perPage);
  const spread = frame.run('GatherV2', gather, [perRow, chunkRows, model.integer(0)], perRow);
  return frame.run('Sub', elementwise, [scores, spread], scores, spread);
}

/**
 * `[chunks, kvHeads, queries, pageSize]` summed over the page. A plain product: oneDNN's batched one crashes when
 * it has to broadcast many rows against one column.
 */
function sumPages({ frame, model, plan }: Pass, weights: TensorId): TensorId {
  const { kvHeads } = model.config;
  const flat = frame.run('Reshape', reshape, [weights, model.integers(-1, pageSize)]);
  const sums = frame.run('MatMul', matMul, [flat, model.ones], flat);
  return frame.run('Reshape', reshape, [sums, model.integers(-1, kvHeads, plan.queries, 1)], sums);
}

/**
 * Softmax attention over the cached pages (Vaswani et al. 2017, eq. 1): `[rows, kvHeads, queries, headDim]` in and out.
 */
function attend(pass: Pass, layer: LayerConstants, index: number, q: TensorId): TensorId {
  const { frame, model, cache, pages, chunkRows, mask } = pass;
  const queries = frame.run('GatherV2', gather, [q, chunkRows, model.integer(0)], q);
  const keys = cache.keys(frame, index, pages);
  const scores = frame.run('BatchMatMulV2', batchMatMulTransposed, [queries, keys], queries, keys);
  const masked = frame.run('AddV2', elementwise, [scores, mask], scores);
  const powers = layer.shifted ? shiftScores(pass, masked) : masked;
  const weights = frame.run('Exp', elementwise, [powers], powers);
  const sums = sumPages(pass, weights);
  const values = cache.values(frame, index, pages);
  const sum = frame.run('BatchMatMulV2', batchMatMul, [weights, values], weights, values);
  // One page after the other, so that pages which a row does not have could only add zeros.
  const numerator = frame.run('SegmentSum', segment, [sum, chunkRows], sum);
  const denominator = frame.run('SegmentSum', segment, [sums, chunkRows], sums);
  return frame.run('RealDiv', elementwise, [numerator, denominator], numerator, denominator);
}

/** SwiGLU (Shazeer 2020): `down(silu(gate(x)) * up(x))`. */
function feedForward(pass: Pass, layer: LayerConstants, x: TensorId): TensorId {
  const { frame, model } = pass;
  const normalised = rmsNormalise(pass, x, model.meanOfHidden, x);
  const gate = frame.run('MatMul', matMul, [normalised, layer.gate]);
  const up = frame.run('MatMul', matMul, [normalised, layer.up], normalised);
  const sigmoid = frame.run('Sigmoid', elementwise, [gate]);
  const silu = frame.run('Mul', elementwise, [gate, sigmoid], gate, sigmoid);
  const product = frame.run('Mul', elementwise, [silu, up], silu, up);
  return frame.run('MatMul', matMul, [product, layer.down], product);
}

function decoderLayer(pass: Pass, layer: LayerConstants, index: number, x: TensorId): TensorId {
  const { frame } = pass;
  const { q, k, v } = project(pass, layer, x);
  pass.cache.write(frame, index, pass.scatter, k, v);
  frame.free([k, v]);
  const attended = ungroup(pass, attend(pass, layer, index, groupQueries(pass, q)));
  const output = frame.run('MatMul', matMul, [attended, layer.output], attended);
  const middle = frame.run('AddV2', elementwise, [x, output], x, output);
  const change = feedForward(pass, layer, middle);
  return frame.run('AddV2', elementwise, [middle, change], middle, change);
}

function begin(frame: Frame, model: SamplerModel, cache: KvCache, plan: BatchPlan): Pass {
  const visible = frame.ints([plan.chunks, 1, plan.queries], plan.visible);
  return {
    frame,
    model,
    cache,
    plan,
    positions: frame.ints([plan.positions.length], plan.positions),
    scatter: frame.ints([plan.scatter.length / 3, 3], plan.scatter),
    pages: frame.ints([plan.chunks], plan.pages),
    chunkRows: frame.ints([plan.chunks], plan.chunkRows),
    mask: frame.run('GatherV2', gather, [model.masks, visible, model.integer(0)], visible),
  };
}

/**
 * Runs one planned pass, writes its keys and values to the cache, and returns the logits of each row's last token,
 * `[last.length, vocab]`.
 */
export function forward(frame: Frame, model: SamplerModel, cache: KvCache, plan: BatchPlan): TensorId {
  const pass = begin(frame, model, cache, plan);
  const ids = frame.ints([plan.tokens.length], plan.tokens);
  let x = frame.run('GatherV2', gather, [model.embedding, ids, model.integer(0)]);
  model.layers.forEach((layer, index) => {
    x = decoderLayer(pass, layer, index, x);
  });
  const last = frame.ints([plan.last.length], plan.last);
  const ends = frame.run('GatherV2', gather, [x, last, model.integer(0)], x);
  const normalised = rmsNormalise(pass, ends, model.meanOfHidden, ends);
  return frame.run('MatMul', matMul, [normalised, model.head], normalised);
}
