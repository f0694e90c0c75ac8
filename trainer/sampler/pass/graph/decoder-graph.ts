/**
 * The decoder's forward pass over new tokens and cached ones, as a graph. A token's logits have the same bits in every
 * batch: sums are matrix products (of at least two rows), `exp` and `sigmoid` see element counts that are multiples
 * of 16, norms divide by a square root, and attention adds pages of fixed length one after the other.
 */

import { attributes } from '../../../graph/attributes.ts';
import type { Edge, GraphBuilder } from '../../../graph/graph-builder.ts';
import { type ModelConfig, hasHeadNorms } from '../../../model/config.ts';
import { pageSize } from './batch-plan.ts';

/** One layer's weights, read from their variables. */
export interface LayerEdges {
  readonly qk: Edge;
  readonly v: Edge;
  /** Only in families with biases. */
  readonly qkBias?: Edge;
  readonly vBias?: Edge;
  readonly rope: Edge;
  readonly output: Edge;
  readonly gate: Edge;
  readonly up: Edge;
  readonly down: Edge;
  /** Variables `[pages, kvHeads, pageSize, headDim]`. */
  readonly keys: Edge;
  readonly values: Edge;
}

export interface DecoderEdges {
  readonly embedding: Edge;
  readonly head: Edge;
  readonly layers: readonly LayerEdges[];
  readonly constants: ConstantEdges;
}

export interface ConstantEdges {
  /** `[pageSize + 1, pageSize]`: row `n` lets a query see the first `n` positions of a page. */
  readonly masks: Edge;
  /** `[hidden, 1]`, each `1 / hidden`: computes a mean as a product. */
  readonly meanOfHidden: Edge;
  /** `[2 * headDim, 1]`: computes the mean square of a head whose halves appear twice. */
  readonly meanOfHead: Edge;
  /** `[2 * headDim, headDim]`: adds the two rotary products. */
  readonly addHalves: Edge;
  /** `[pageSize, 1]` */
  readonly ones: Edge;
  readonly epsilon: Edge;
}

/** The index arrays of a `BatchPlan`. */
export interface PlanEdges {
  readonly tokens: Edge;
  readonly positions: Edge;
  readonly scatter: Edge;
  readonly pages: Edge;
  readonly chunkRows: Edge;
  readonly visible: Edge;
  readonly last: Edge;
}

/** Shapes that depend on the number of new tokens per row. */
export interface WidthEdges {
  /** `[-1, width, kvHeads, group * headDim]` */
  readonly apart: Edge;
  /** `[-1, kvHeads, width * group, headDim]` */
  readonly grouped: Edge;
  /** `[-1, kvHeads, width, group * headDim]` */
  readonly swapped: Edge;
  /** `[-1, kvHeads, width * group, 1]` */
  readonly sums: Edge;
}

export interface PassKind {
  /** `null` if there is one new token per row. */
  readonly widths: WidthEdges | null;
  /** Queries of a row and key-value head if there is one new token per row: `group`, padded. */
  readonly queries: number;
  /** True if scores may be too large for `exp`: then their maximum is subtracted first. */
  readonly shifted: boolean;
}

interface Pass extends PassKind {
  readonly graph: GraphBuilder;
  readonly config: ModelConfig;
  readonly constants: ConstantEdges;
  readonly plan: PlanEdges;
  /** `[chunks, 1, queries, pageSize]` */
  readonly mask: Edge;
}

const { elementwise, matMul, batchMatMul, batchMatMulTransposed, reshape, transpose, gather, segment, max } =
  attributes;

/** `scaled / sqrt(mean(x^2) + epsilon)`, over the last axis of `x`, `[rows, size]`; `mean` is `[size, 1]`. */
function rmsNormalise(graph: GraphBuilder, x: Edge, mean: Edge, epsilon: Edge, scaled: Edge): Edge {
  const squares = graph.run('Square', elementwise, [x]);
  const meanSquare = graph.run('MatMul', matMul, [squares, mean]);
  const shifted = graph.run('AddV2', elementwise, [meanSquare, epsilon]);
  const root = graph.run('Sqrt', elementwise, [shifted]);
  // TensorFlow rewrites a plain division by a root as a product with `Rsqrt`: other bits in the last elements.
  return graph.run('DivNoNan', elementwise, [scaled, root]);
}

function normaliseHidden({ graph, constants }: Pick<Pass, 'graph' | 'constants'>, x: Edge): Edge {
  return rmsNormalise(graph, x, constants.meanOfHidden, constants.epsilon, x);
}

/** `x @ matrix + bias`; a sum of two numbers has the same bits at any place in the tensor. */
function projection(graph: GraphBuilder, x: Edge, matrix: Edge, bias: Edge | undefined): Edge {
  const product = graph.run('MatMul', matMul, [x, matrix]);
  return bias === undefined ? product : graph.run('AddV2', elementwise, [product, bias]);
}

/** Queries `[tokens, heads * headDim]`, keys and values `[tokens * kvHeads, headDim]`; normalised, rotated, scaled. */
function project(pass: Pass, layer: LayerEdges, x: Edge): { q: Edge; k: Edge; v: Edge } {
  const { graph, constants } = pass;
  const { heads, kvHeads, headDim } = pass.config;
  const normalised = normaliseHidden(pass, x);
  const v = projection(graph, normalised, layer.v, layer.vBias);
  const raw = projection(graph, normalised, layer.qk, layer.qkBias);
  const factors = graph.run('GatherV2', gather, [layer.rope, pass.plan.positions, graph.integer(0)]);
  const products = graph.run('Mul', elementwise, [raw, factors]);
  const perHead = graph.integers(-1, 2 * headDim);
  const productHeads = graph.run('Reshape', reshape, [products, perHead]);
  const turned = graph.run('MatMul', matMul, [productHeads, constants.addHalves]);
  const normaliseHeads = (): Edge => {
    const rawHeads = graph.run('Reshape', reshape, [raw, perHead]);
    return rmsNormalise(graph, rawHeads, constants.meanOfHead, constants.epsilon, turned);
  };
  const qkHeads = hasHeadNorms(pass.config) ? normaliseHeads() : turned;
  const qk = graph.run('Reshape', reshape, [qkHeads, graph.integers(-1, (heads + kvHeads) * headDim)]);
  const sizes = graph.integers(heads * headDim, kvHeads * headDim);
  const [q, k] = graph.split('SplitV', attributes.splitInTwo, [qk, sizes, graph.integer(1)], 2);
  if (q === undefined || k === undefined) throw new RangeError('two tensors wanted');
  return { q, k: perKvHead(pass, k), v: perKvHead(pass, v) };
}

function perKvHead({ graph, config }: Pass, x: Edge): Edge {
  const { kvHeads, headDim } = config;
  return kvHeads === 1 ? x : graph.run('Reshape', reshape, [x, graph.integers(-1, headDim)]);
}

/** Indices into `group` queries for an array of `size`: all of them, padded with the first. */
const fromGroup = (group: number, size: number): number[] =>
  Array.from({ length: size }, (_, i) => (i < group ? i : 0));

/** `[rows * width, heads * headDim]` as `[rows, kvHeads, queries, headDim]`. */
function groupQueries({ graph, config, widths, queries }: Pass, q: Edge): Edge {
  const { heads, kvHeads, headDim } = config;
  const group = heads / kvHeads;
  if (widths === null) {
    const plain = graph.run('Reshape', reshape, [q, graph.integers(-1, kvHeads, group, headDim)]);
    if (queries === group) return plain;
    return graph.run('GatherV2', gather, [plain, graph.integers(...fromGroup(group, queries)), graph.integer(2)]);
  }
  if (kvHeads === 1) return graph.run('Reshape', reshape, [q, widths.grouped]);
  const apart = graph.run('Reshape', reshape, [q, widths.apart]);
  const swapped = graph.run('Transpose', transpose, [apart, graph.integers(0, 2, 1, 3)]);
  return graph.run('Reshape', reshape, [swapped, widths.grouped]);
}

/** The inverse of `groupQueries`. */
function ungroup({ graph, config, widths, queries }: Pass, x: Edge): Edge {
  const { heads, kvHeads, headDim } = config;
  const group = heads / kvHeads;
  const flat = graph.integers(-1, heads * headDim);
  if (widths === null) {
    if (queries === group) return graph.run('Reshape', reshape, [x, flat]);
    const real = graph.run('GatherV2', gather, [x, graph.integers(...fromGroup(group, group)), graph.integer(2)]);
    return graph.run('Reshape', reshape, [real, flat]);
  }
  if (kvHeads === 1) return graph.run('Reshape', reshape, [x, flat]);
  const apart = graph.run('Reshape', reshape, [x, widths.swapped]);
  const swapped = graph.run('Transpose', transpose, [apart, graph.integers(0, 2, 1, 3)]);
  return graph.run('Reshape', reshape, [swapped, flat]);
}

/** Subtracts each row's largest score from its scores: softmax does not change, and `exp` stays finite. */
function shiftScores({ graph, plan }: Pass, scores: Edge): Edge {
  const perPage = graph.run('Max', max, [scores, graph.integers(3)]);
  const perRow = graph.run('SegmentMax', segment, [perPage, plan.chunkRows]);
  const spread = graph.run('GatherV2', gather, [perRow, plan.chunkRows, graph.integer(0)]);
  return graph.run('Sub', elementwise, [scores, spread]);
}

/**
 * `[chunks, kvHeads, queries, pageSize]` summed over the page. It is a plain product: oneDNN's batched product crashes
 * if it broadcasts many rows against one column.
 */
function sumPages({ graph, config, constants, widths, queries }: Pass, weights: Edge): Edge {
  const flat = graph.run('Reshape', reshape, [weights, graph.integers(-1, pageSize)]);
  const sums = graph.run('MatMul', matMul, [flat, constants.ones]);
  return graph.run('Reshape', reshape, [sums, widths?.sums ?? graph.integers(-1, config.kvHeads, queries, 1)]);
}

/**
 * Softmax attention over the cached pages (Vaswani et al. 2017, eq. 1): `[rows, kvHeads, queries, headDim]` in and out.
 */
function attend(pass: Pass, layer: LayerEdges, q: Edge): Edge {
  const { graph, plan, mask } = pass;
  const queries = graph.run('GatherV2', gather, [q, plan.chunkRows, graph.integer(0)]);
  const keys = graph.run('ResourceGather', attributes.gatherVariable, [layer.keys, plan.pages]);
  const scores = graph.run('BatchMatMulV2', batchMatMulTransposed, [queries, keys]);
  const masked = graph.run('AddV2', elementwise, [scores, mask]);
  const weights = graph.run('Exp', elementwise, [pass.shifted ? shiftScores(pass, masked) : masked]);
  const sums = sumPages(pass, weights);
  const values = graph.run('ResourceGather', attributes.gatherVariable, [layer.values, plan.pages]);
  const sum = graph.run('BatchMatMulV2', batchMatMul, [weights, values]);
  // Pages are added one after the other, so that padding pages only add zeros.
  const numerator = graph.run('SegmentSum', segment, [sum, plan.chunkRows]);
  const denominator = graph.run('SegmentSum', segment, [sums, plan.chunkRows]);
  return graph.run('RealDiv', elementwise, [numerator, denominator]);
}

/** SwiGLU (Shazeer 2020): `down(silu(gate(x)) * up(x))`. */
function feedForward(pass: Pass, layer: LayerEdges, x: Edge): Edge {
  const { graph } = pass;
  const normalised = normaliseHidden(pass, x);
  const gate = graph.run('MatMul', matMul, [normalised, layer.gate]);
  const up = graph.run('MatMul', matMul, [normalised, layer.up]);
  const sigmoid = graph.run('Sigmoid', elementwise, [gate]);
  // The order matters: TensorFlow fuses `gate * sigmoid(gate)`, and the fused op gives other bits in the last elements.
  const gated = graph.run('Mul', elementwise, [gate, up]);
  const product = graph.run('Mul', elementwise, [gated, sigmoid]);
  return graph.run('MatMul', matMul, [product, layer.down]);
}

function decoderLayer(pass: Pass, layer: LayerEdges, x: Edge): Edge {
  const { graph, plan } = pass;
  const { q, k, v } = project(pass, layer, x);
  graph.write('ResourceScatterNdUpdate', attributes.scatterPlaces, layer.keys, [plan.scatter, k]);
  graph.write('ResourceScatterNdUpdate', attributes.scatterPlaces, layer.values, [plan.scatter, v]);
  const attended = ungroup(pass, attend(pass, layer, groupQueries(pass, q)));
  const output = graph.run('MatMul', matMul, [attended, layer.output]);
  const middle = graph.run('AddV2', elementwise, [x, output]);
  return graph.run('AddV2', elementwise, [middle, feedForward(pass, layer, middle)]);
}

/**
 * Adds one planned pass, which writes its keys and values to the cache; returns the logits of each row's last token,
 * `[last.length, vocab]`.
 */
export function addPass(
  graph: GraphBuilder,
  config: ModelConfig,
  decoder: DecoderEdges,
  plan: PlanEdges,
  kind: PassKind,
): Edge {
  const { constants } = decoder;
  const mask = graph.run('GatherV2', gather, [constants.masks, plan.visible, graph.integer(0)]);
  const pass: Pass = { ...kind, graph, config, constants, plan, mask };
  let x = graph.run('GatherV2', gather, [decoder.embedding, plan.tokens, graph.integer(0)]);
  for (const layer of decoder.layers) x = decoderLayer(pass, layer, x);
  const ends = graph.run('GatherV2', gather, [x, plan.last, graph.integer(0)]);
  return graph.run('MatMul', matMul, [normaliseHidden(pass, ends), decoder.head]);
}
