/**
 * The decoder's forward pass over right-padded rows, and its gradient written by hand. Each layer is one graph forward
 * and one back, the same for all but the last; nothing is computed twice, unless a policy asks for it to save memory.
 */

import { tf } from '../tensorflow.ts';
import { type AttentionSaved, type AttentionShape, attend, attendGradient, attentionShape } from './attention.ts';
import { hasHeadNorms } from './config.ts';
import type { GradientSink, Sum } from './gradients.ts';
import { type Tensor, add, gatherRows, inGraph, matMul, scatterRows, scope, sumOver, sumRowsByIndex } from './kernels.ts';
import { type MlpSaved, mlp, mlpGradient } from './mlp.ts';
import type { DecoderWeights, LayerWeights, Policy } from './policy.ts';
import { type Normalized, normalize, normalizeGradient } from './rms-norm.ts';
import { type RotaryContext, type RotarySaved, type RotaryTables, rotate, rotateGradient } from './rotary.ts';

/** Rows of token ids, padded on the right; what stands in the padding is never seen. */
export interface TokenRows {
  readonly batch: number;
  readonly length: number;
  /** [batch · length]. */
  readonly ids: Int32Array;
  /** Flat positions (row · length + column), ascending, whose hidden state is wanted. */
  readonly positions: Int32Array;
}

interface Context {
  readonly rotary: RotaryContext;
  readonly attention: AttentionShape;
  /** [positions]. */
  readonly positions: Tensor;
  readonly tokens: number;
}

interface LayerSaved {
  readonly input: Normalized;
  readonly rotary: RotarySaved;
  readonly attention: AttentionSaved;
  readonly attended: Tensor;
  readonly middle: Normalized;
  readonly mlp: MlpSaved;
}

/** What the gradient of a layer needs: all that its forward pass computed, or its input, from which that is computed again. */
type LayerMemory = { readonly saved: LayerSaved } | { readonly input: Tensor };

/**
 * `all`: of every layer all that its gradient needs. `inputs`: its input alone, so that its forward pass runs again in the
 * backward pass (Chen et al. 2016), to the same bits. `none`: no gradient is wanted.
 */
export type Remember = 'all' | 'inputs' | 'none';

export interface DecoderSaved {
  readonly context: Context;
  readonly ids: Tensor;
  readonly layers: readonly LayerMemory[];
  readonly final: Normalized;
}

/** The last layer computes what follows its attention at the wanted positions alone. */
function layerForward(
  x: Tensor,
  weights: LayerWeights,
  context: Context,
  last: boolean,
): { x: Tensor; saved: LayerSaved } {
  return inGraph(() => {
    const input = normalize(x, context.rotary.epsilon);
    const project = (matrix: Tensor, bias: Tensor | undefined): Tensor => {
      const rows = matMul(input.n, matrix, false, true);
      return bias === undefined ? rows : add(rows, bias);
    };
    const { y, saved: rotary } = rotate(project(weights.qk, weights.qkBias), weights.headWeights, context.rotary);
    const { out, saved: attention } = attend(y, project(weights.v, weights.vBias), context.attention);
    const pick = (rows: Tensor): Tensor => (last ? gatherRows(rows, context.positions) : rows);
    const attended = pick(out);
    const between = add(pick(x), matMul(attended, weights.o, false, true));
    const middle = normalize(between, context.rotary.epsilon);
    const { out: delta, saved } = mlp(middle.n, weights);
    return { x: add(between, delta), saved: { input, rotary, attention, attended, middle, mlp: saved } };
  });
}

function contextOf(policy: Policy, weights: DecoderWeights, rows: TokenRows, tables: RotaryTables): Context {
  const { config } = policy;
  const { batch, length } = rows;
  const epsilon = tf.scalar(config.normEpsilon);
  const rotary = {
    batch,
    length,
    headDim: config.headDim,
    headNorms: hasHeadNorms(config),
    epsilon,
    tables: { ...tables.first(length), swap: tables.swap },
  };
  const attention = attentionShape(config, batch, length, weights.scoreBound);
  return { rotary, attention, positions: tf.tensor1d(rows.positions, 'int32'), tokens: batch * length };
}

/** Hidden states at `rows.positions` after the final norm without its weight, [positions, hidden]; `saved` is for the gradient. */
export function decode(policy: Policy, rows: TokenRows, tables: RotaryTables, remember: Remember): { hidden: Tensor; saved: DecoderSaved } {
  const weights = policy.weights();
  return scope(() => {
    const context = contextOf(policy, weights, rows, tables);
    const ids = tf.tensor1d(rows.ids, 'int32');
    const layers: LayerMemory[] = [];
    let x = gatherRows(weights.embed, ids);
    for (const [i, layer] of weights.layers.entries()) {
      const result = layerForward(x, layer, context, i === weights.layers.length - 1);
      if (remember !== 'all') free(result.saved);
      if (remember === 'none') x.dispose();
      layers.push(remember === 'all' ? { saved: result.saved } : { input: x });
      x = result.x;
    }
    const final = normalize(x, context.rotary.epsilon);
    return { hidden: final.n, saved: { context, ids, layers, final } };
  });
}

const free = (saved: LayerSaved): void => tf.dispose(saved as unknown as Parameters<typeof tf.dispose>[0]);

/** The sums of gradients that one layer's backward pass makes, and the gradient of its input. */
interface LayerGradient {
  readonly dx: Tensor;
  readonly sums: readonly Sum[];
}

type Add = (key: string, gradient: Tensor) => void;

function mlpBackward(dx: Tensor, weights: LayerWeights, saved: LayerSaved, into: Add): Tensor {
  const gradient = mlpGradient(dx, weights, saved.mlp);
  into('gate', gradient.gate);
  into('up', gradient.up);
  into('down', gradient.down);
  return add(dx, normalizeGradient(gradient.dn, saved.middle));
}

function attentionBackward(dx: Tensor, weights: LayerWeights, saved: LayerSaved, context: Context, last: boolean, into: Add): Tensor {
  const spread = (rows: Tensor, width: number): Tensor => (last ? scatterRows(rows, context.positions, context.tokens, width) : rows);
  const { heads, headDim, hiddenSize } = context.attention.config;
  into('o', matMul(dx, saved.attended, true));
  const { dy, dv } = attendGradient(spread(matMul(dx, weights.o), heads * headDim), saved.attention, context.attention);
  const rotary = rotateGradient(dy, saved.rotary, context.rotary);
  if (context.rotary.headNorms) {
    into('headWeights', rotary.straight);
    into('headWeightsSwapped', rotary.swapped);
  }
  if (weights.qkBias !== undefined) {
    into('qkBias', sumOver(rotary.dProjected, [0]));
    into('vBias', sumOver(dv, [0]));
  }
  into('qk', matMul(rotary.dProjected, saved.input.n, true));
  into('v', matMul(dv, saved.input.n, true));
  const dn = add(matMul(rotary.dProjected, weights.qk), matMul(dv, weights.v));
  return add(spread(dx, hiddenSize), normalizeGradient(dn, saved.input));
}

function layerBackward(dx: Tensor, weights: LayerWeights, saved: LayerSaved, context: Context, index: number, last: boolean, into: GradientSink): LayerGradient {
  return inGraph(() => {
    const sums: Sum[] = [];
    const adding: Add = (key, gradient) => void sums.push(...into.plus(`${index}.${key}`, gradient));
    const between = mlpBackward(dx, weights, saved, adding);
    return { dx: attentionBackward(between, weights, saved, context, last, adding), sums };
  });
}

/** Adds the gradients of everything below the hidden states, for dHidden [positions, hidden], into `into`; `saved` is used up. */
export function decodeGradient(policy: Policy, dHidden: Tensor, saved: DecoderSaved, into: GradientSink): void {
  const weights = policy.weights();
  scope(() => {
    let dx = normalizeGradient(dHidden, saved.final);
    for (let i = weights.layers.length - 1; i >= 0; i--) {
      const [layer, memory] = [weights.layers[i], saved.layers[i]];
      if (layer === undefined || memory === undefined) throw new Error(`layer ${i} was not computed`);
      const last = i === weights.layers.length - 1;
      const state = 'saved' in memory ? memory.saved : again(memory.input, layer, saved.context, last);
      const below = layerBackward(dx, layer, state, saved.context, i, last, into);
      into.keep(below.sums);
      free(state);
      dx.dispose();
      dx = below.dx;
    }
    if (into.wants('embed')) into.keep(into.plus('embed', sumRowsByIndex(dx, saved.ids, policy.config.vocabSize)));
  });
}

function again(input: Tensor, layer: LayerWeights, context: Context, last: boolean): LayerSaved {
  const { x, saved } = layerForward(input, layer, context, last);
  tf.dispose([x, input]);
  return saved;
}
