/**
 * The decoder's forward pass over right-padded rows, and its gradient, written by hand. Each layer is one graph forward
 * and one backward; all layers but the last share them. Nothing is computed twice, except to save memory (`Remember`).
 */

import { tf } from '../tensorflow.ts';
import {
  type Block,
  type BlockSaved,
  type PackedBlock,
  attendBlock,
  attendBlockGradient,
  blocksOf,
} from './layers/attention-blocks.ts';
import { type ModelConfig, hasHeadNorms } from './config.ts';
import { type GradientSink, type Sum, productSums } from './gradients.ts';
import {
  type Tensor,
  add,
  addAll,
  concat,
  gatherRows,
  inGraph,
  matMul,
  plus,
  scatterRows,
  scope,
  sumOver,
  sumRowsByIndex,
} from './layers/kernels.ts';
import { type MlpSaved, mlp, mlpGradient } from './layers/mlp.ts';
import type { DecoderWeights, LayerWeights, Policy } from './policy.ts';
import { type Normalized, normalize, normalizeGradient } from './layers/rms-norm.ts';
import type { RotaryTables } from './layers/rotary.ts';

/** Rows of token ids, padded on the right. No result depends on the padding. */
export interface TokenRows {
  readonly batch: number;
  readonly length: number;
  /** [batch · length]. */
  readonly ids: Int32Array;
  /** Flat positions (row · length + column), each at most once, whose hidden state is wanted. */
  readonly positions: Int32Array;
  /** The sequences, if there is one packed row without padding. */
  readonly blocks?: readonly PackedBlock[];
}

/** Products of low rank that are added to those with the layers' matrices. Keys are those of the gradients. */
export interface LowRank {
  /** What is added to `x` · matrixᵀ, for rows `x`; `undefined`: nothing. */
  forward(key: string, x: Tensor): Tensor | undefined;
  /** What is added to `dy` · matrix. */
  backward(key: string, dy: Tensor): Tensor | undefined;
}

/** What the decoder computes with: a policy, or one with an adapter beside its weights. */
export type Decoded = Pick<Policy, 'config' | 'weights'> & { readonly lowRank?: LowRank };

interface Context {
  readonly epsilon: Tensor;
  readonly blocks: readonly Block[];
  /** [positions]. */
  readonly positions: Tensor;
  readonly tokens: number;
}

interface LayerSaved {
  readonly input: Normalized;
  readonly blocks: readonly BlockSaved[];
  readonly attended: Tensor;
  readonly middle: Normalized;
  readonly mlp: MlpSaved;
}

/** Kept for a layer's gradient: all results of its forward pass, or its input, from which they are computed again. */
type LayerMemory = { readonly saved: LayerSaved } | { readonly input: Tensor };

/**
 * What a forward pass keeps of each layer. `all`: everything that the gradient needs. `inputs`: only the layer's input;
 * the backward pass repeats the layer's forward pass (Chen et al. 2016), with the same bits. `none`: there is no
 * backward pass.
 */
export type Remember = 'all' | 'inputs' | 'none';

export interface DecoderSaved {
  readonly context: Context;
  readonly ids: Tensor;
  readonly layers: readonly LayerMemory[];
  readonly final: Normalized;
}

/** After its attention, the last layer computes only the wanted positions. */
function layerForward(
  x: Tensor,
  weights: LayerWeights,
  context: Context,
  last: boolean,
  added: (key: string, x: Tensor) => Tensor | undefined,
): { x: Tensor; saved: LayerSaved } {
  return inGraph(() => {
    const input = normalize(x, context.epsilon);
    const project = (key: 'qk' | 'v', bias: Tensor | undefined): Tensor => {
      const rows = plus(matMul(input.n, weights[key], false, true), added(key, input.n));
      return bias === undefined ? rows : add(rows, bias);
    };
    const [qk, v] = [project('qk', weights.qkBias), project('v', weights.vBias)];
    const parts = context.blocks.map((block) => attendBlock(qk, v, weights, block));
    const out = concat(
      parts.map((part) => part.out),
      0,
    );
    const pick = (rows: Tensor): Tensor => (last ? gatherRows(rows, context.positions) : rows);
    const attended = pick(out);
    const between = add(pick(x), plus(matMul(attended, weights.o, false, true), added('o', attended)));
    const middle = normalize(between, context.epsilon);
    const { out: delta, saved } = mlp(middle.n, weights, added);
    return {
      x: add(between, delta),
      saved: { input, blocks: parts.map((part) => part.saved), attended, middle, mlp: saved },
    };
  });
}

/** What `model` adds in layer `index`. */
const addedIn =
  ({ lowRank }: Decoded, index: number) =>
  (key: string, x: Tensor): Tensor | undefined =>
    lowRank?.forward(`${index}.${key}`, x);

function contextOf(policy: Decoded, weights: DecoderWeights, rows: TokenRows, tables: RotaryTables): Context {
  const { config } = policy;
  const epsilon = tf.scalar(config.normEpsilon);
  const blocks = blocksOf(config, rows, tables, epsilon, weights.scoreBound);
  return { epsilon, blocks, positions: tf.tensor1d(rows.positions, 'int32'), tokens: rows.batch * rows.length };
}

/** Hidden states at `rows.positions` after the final norm without its weight, [positions, hidden]. */
export function decode(
  policy: Decoded,
  rows: TokenRows,
  tables: RotaryTables,
  remember: Remember,
): { hidden: Tensor; saved: DecoderSaved } {
  const weights = policy.weights();
  return scope(() => {
    const context = contextOf(policy, weights, rows, tables);
    const ids = tf.tensor1d(rows.ids, 'int32');
    const layers: LayerMemory[] = [];
    let x = gatherRows(weights.embed, ids);
    for (const [i, layer] of weights.layers.entries()) {
      const result = layerForward(x, layer, context, i === weights.layers.length - 1, addedIn(policy, i));
      if (remember !== 'all') free(result.saved);
      if (remember === 'none') x.dispose();
      layers.push(remember === 'all' ? { saved: result.saved } : { input: x });
      x = result.x;
    }
    const final = normalize(x, context.epsilon);
    return { hidden: final.n, saved: { context, ids, layers, final } };
  });
}

const free = (saved: LayerSaved): void => tf.dispose(saved as unknown as Parameters<typeof tf.dispose>[0]);

/** The sums of gradients that one layer's backward pass makes, and the gradient of its input. */
interface LayerGradient {
  readonly dx: Tensor;
  readonly sums: readonly Sum[];
}

/** Where a layer's backward pass gives its gradients, and asks for what low-rank products add to them. */
interface LayerSink {
  give(key: string, gradient: Tensor): void;
  /** The gradient of y = x · Mᵀ by M: dyᵀ · x. */
  giveProduct(key: string, dy: Tensor, x: Tensor): void;
  added(key: string, dy: Tensor): Tensor | undefined;
}

function mlpBackward(dx: Tensor, weights: LayerWeights, saved: LayerSaved, into: LayerSink): Tensor {
  const { dGate, dUp, dn } = mlpGradient(dx, weights, saved.mlp, (key, dy) => into.added(key, dy));
  into.giveProduct('gate', dGate, saved.mlp.n);
  into.giveProduct('up', dUp, saved.mlp.n);
  into.giveProduct('down', dx, saved.mlp.product);
  return add(dx, normalizeGradient(dn, saved.middle));
}

function attentionBackward(
  dx: Tensor,
  weights: LayerWeights,
  saved: LayerSaved,
  context: Context,
  last: boolean,
  config: ModelConfig,
  into: LayerSink,
): Tensor {
  const spread = (rows: Tensor, width: number): Tensor =>
    last ? scatterRows(rows, context.positions, context.tokens, width) : rows;
  into.giveProduct('o', dx, saved.attended);
  const dOut = spread(plus(matMul(dx, weights.o), into.added('o', dx)), config.heads * config.headDim);
  const parts = context.blocks.flatMap((block, i) => {
    const own = saved.blocks[i];
    return own === undefined ? [] : [attendBlockGradient(dOut, own, block)];
  });
  if (hasHeadNorms(config)) {
    into.give('headWeights', addAll(parts.map(({ straight }) => straight)));
    into.give('headWeightsSwapped', addAll(parts.map(({ swapped }) => swapped)));
  }
  const [dQk, dV] = [
    concat(
      parts.map((part) => part.dQk),
      0,
    ),
    concat(
      parts.map((part) => part.dV),
      0,
    ),
  ];
  if (weights.qkBias !== undefined) {
    into.give('qkBias', sumOver(dQk, [0]));
    into.give('vBias', sumOver(dV, [0]));
  }
  into.giveProduct('qk', dQk, saved.input.n);
  into.giveProduct('v', dV, saved.input.n);
  const dn = add(
    plus(matMul(dQk, weights.qk), into.added('qk', dQk)),
    plus(matMul(dV, weights.v), into.added('v', dV)),
  );
  return add(spread(dx, config.hiddenSize), normalizeGradient(dn, saved.input));
}

function layerBackward(
  dx: Tensor,
  policy: Decoded,
  saved: LayerSaved,
  context: Context,
  index: number,
  into: GradientSink,
): LayerGradient {
  const { layers } = policy.weights();
  const weights = layers[index];
  if (weights === undefined) throw new Error(`the policy has no layer ${index}`);
  return inGraph(() => {
    const sums: Sum[] = [];
    const own: LayerSink = {
      give: (key, gradient) => void sums.push(...into.plus(`${index}.${key}`, gradient)),
      giveProduct: (key, dy, x) => void sums.push(...productSums(into, `${index}.${key}`, dy, x)),
      added: (key, dy) => policy.lowRank?.backward(`${index}.${key}`, dy),
    };
    const between = mlpBackward(dx, weights, saved, own);
    return {
      dx: attentionBackward(between, weights, saved, context, index === layers.length - 1, policy.config, own),
      sums,
    };
  });
}

/** Adds all gradients below the hidden states to `into`; dHidden is [positions, hidden]. Uses up `saved`. */
export function decodeGradient(policy: Decoded, dHidden: Tensor, saved: DecoderSaved, into: GradientSink): void {
  const weights = policy.weights();
  scope(() => {
    let dx = normalizeGradient(dHidden, saved.final);
    for (let i = weights.layers.length - 1; i >= 0; i--) {
      const [layer, memory] = [weights.layers[i], saved.layers[i]];
      if (layer === undefined || memory === undefined) throw new Error(`layer ${i} was not computed`);
      const last = i === weights.layers.length - 1;
      const state =
        'saved' in memory ? memory.saved : again(memory.input, layer, saved.context, last, addedIn(policy, i));
      const below = layerBackward(dx, policy, state, saved.context, i, into);
      into.keep(below.sums);
      free(state);
      dx.dispose();
      dx = below.dx;
    }
    if (into.wants('embed')) into.keep(into.plus('embed', sumRowsByIndex(dx, saved.ids, policy.config.vocabSize)));
  });
}

function again(
  input: Tensor,
  layer: LayerWeights,
  context: Context,
  last: boolean,
  added: ReturnType<typeof addedIn>,
): LayerSaved {
  const { x, saved } = layerForward(input, layer, context, last, added);
  tf.dispose([x, input]);
  return saved;
}
