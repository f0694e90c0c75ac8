/** The decoder's forward pass over right-padded rows, and its gradient written by hand: nothing is computed twice. */

import { tf } from '../tensorflow.ts';
import { type AttentionSaved, type AttentionShape, attend, attendGradient, attentionShape } from './attention.ts';
import { hasHeadNorms } from './config.ts';
import type { GradientSink } from './gradients.ts';
import { type Tensor, add, gatherRows, matMul, scatterRows, scope, sumOver, sumRowsByIndex } from './kernels.ts';
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

export interface DecoderSaved {
  readonly context: Context;
  readonly ids: Tensor;
  readonly layers: readonly LayerSaved[];
  readonly final: Normalized;
}

/** The last layer computes what follows its attention at the wanted positions alone. */
function layerForward(
  x: Tensor,
  weights: LayerWeights,
  context: Context,
  last: boolean,
): { x: Tensor; saved: LayerSaved } {
  return scope(() => {
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
export function decode(policy: Policy, rows: TokenRows, tables: RotaryTables): { hidden: Tensor; saved: DecoderSaved } {
  const weights = policy.weights();
  return scope(() => {
    const context = contextOf(policy, weights, rows, tables);
    const ids = tf.tensor1d(rows.ids, 'int32');
    const layers: LayerSaved[] = [];
    let x = gatherRows(weights.embed, ids);
    for (const [i, layer] of weights.layers.entries()) {
      const result = layerForward(x, layer, context, i === weights.layers.length - 1);
      layers.push(result.saved);
      x = result.x;
    }
    const final = normalize(x, context.rotary.epsilon);
    return { hidden: final.n, saved: { context, ids, layers, final } };
  });
}

function mlpBackward(dx: Tensor, weights: LayerWeights, saved: LayerSaved, index: number, into: GradientSink): Tensor {
  const gradient = mlpGradient(dx, weights, saved.mlp);
  into.add(`${index}.gate`, gradient.gate);
  into.add(`${index}.up`, gradient.up);
  into.add(`${index}.down`, gradient.down);
  return add(dx, normalizeGradient(gradient.dn, saved.middle));
}

function attentionBackward(
  dx: Tensor,
  weights: LayerWeights,
  saved: LayerSaved,
  context: Context,
  index: number,
  last: boolean,
  into: GradientSink,
): Tensor {
  const spread = (rows: Tensor): Tensor => (last ? scatterRows(rows, context.positions, context.tokens) : rows);
  into.add(`${index}.o`, matMul(dx, saved.attended, true));
  const { dy, dv } = attendGradient(spread(matMul(dx, weights.o)), saved.attention, context.attention);
  const rotary = rotateGradient(dy, saved.rotary, context.rotary);
  if (context.rotary.headNorms) {
    into.add(`${index}.headWeights`, rotary.straight);
    into.add(`${index}.headWeightsSwapped`, rotary.swapped);
  }
  if (weights.qkBias !== undefined) {
    into.add(`${index}.qkBias`, sumOver(rotary.dProjected, [0]));
    into.add(`${index}.vBias`, sumOver(dv, [0]));
  }
  into.add(`${index}.qk`, matMul(rotary.dProjected, saved.input.n, true));
  into.add(`${index}.v`, matMul(dv, saved.input.n, true));
  const dn = add(matMul(rotary.dProjected, weights.qk), matMul(dv, weights.v));
  return add(spread(dx), normalizeGradient(dn, saved.input));
}

/** Adds the gradients of everything below the hidden states, for dHidden [positions, hidden], into `into`. */
export function decodeGradient(policy: Policy, dHidden: Tensor, saved: DecoderSaved, into: GradientSink): void {
  const weights = policy.weights();
  scope(() => {
    let dx = normalizeGradient(dHidden, saved.final);
    for (let i = weights.layers.length - 1; i >= 0; i--) {
      const [layer, state] = [weights.layers[i], saved.layers[i]];
      if (layer === undefined || state === undefined) throw new Error(`layer ${i} was not computed`);
      const above = dx;
      dx = scope(() => {
        const between = mlpBackward(above, layer, state, i, into);
        return attentionBackward(between, layer, state, saved.context, i, i === weights.layers.length - 1, into);
      });
      above.dispose();
    }
    if (into.wants('embed')) into.add('embed', sumRowsByIndex(dx, saved.ids, policy.config.vocabSize));
  });
}
