/** TensorFlow's ops as typed functions, without a gradient tape. They run at once, or are recorded by `inGraph`. */

import type { Tensor } from '@tensorflow/tfjs-node-gpu';
import { attr } from '../../tensorflow.ts';
import { Changing, fixed, op, ops, scope } from './in-graph.ts';

export type { Tensor };
export { inGraph, leavingNothing, scope } from './in-graph.ts';

const real = attr.type('T', 'float32');
const realOnly = [real];
const reduction = [real, attr.type('Tidx', 'int32'), attr.bool('keep_dims', true)];
const flatReduction = [real, attr.type('Tidx', 'int32'), attr.bool('keep_dims', false)];
const permuting = [real, attr.type('Tperm', 'int32')];
const slicing = [real, attr.type('Index', 'int32')];
const padding = [real, attr.type('Tpaddings', 'int32')];
const reshaping = [real, attr.type('Tshape', 'int32')];
const reshapingIntegers = [attr.type('T', 'int32'), attr.type('Tshape', 'int32')];
const gathering = [
  attr.type('Tparams', 'float32'),
  attr.type('Tindices', 'int32'),
  attr.type('Taxis', 'int32'),
  attr.int('batch_dims', 0),
];
const scattering = [real, attr.type('Tindices', 'int32')];
const segmenting = [real, attr.type('Tindices', 'int32'), attr.type('Tnumsegments', 'int32')];
const choosing = [attr.type('T', 'int32')];
const labelled = [real, attr.type('Tlabels', 'int32')];

const flags = (a: string, b: string) =>
  [false, true].map((x) => [false, true].map((y) => [real, attr.bool(a, x), attr.bool(b, y)]));
const matMulFlags = flags('transpose_a', 'transpose_b');
const batchMatMulFlags = flags('adj_x', 'adj_y');

/** [m,k] · [k,n]; `ta`, `tb` read an operand transposed. */
export function matMul(a: Tensor, b: Tensor, ta = false, tb = false): Tensor {
  return op('MatMul', matMulFlags[+ta]?.[+tb] ?? [], [a, b]);
}

/** The same over leading batch dimensions, which broadcast. */
export function batchMatMul(a: Tensor, b: Tensor, ta = false, tb = false): Tensor {
  return op('BatchMatMulV2', batchMatMulFlags[+ta]?.[+tb] ?? [], [a, b]);
}

export const add = (a: Tensor, b: Tensor): Tensor => op('AddV2', realOnly, [a, b]);
/** `a`, plus `b` if there is one. */
export const plus = (a: Tensor, b: Tensor | undefined): Tensor => (b === undefined ? a : add(a, b));
export const sub = (a: Tensor, b: Tensor): Tensor => op('Sub', realOnly, [a, b]);
export const mul = (a: Tensor, b: Tensor): Tensor => op('Mul', realOnly, [a, b]);
export const div = (a: Tensor, b: Tensor): Tensor => op('RealDiv', realOnly, [a, b]);
export const neg = (x: Tensor): Tensor => op('Neg', realOnly, [x]);
export const square = (x: Tensor): Tensor => op('Square', realOnly, [x]);
export const sqrt = (x: Tensor): Tensor => op('Sqrt', realOnly, [x]);
export const rsqrt = (x: Tensor): Tensor => op('Rsqrt', realOnly, [x]);
export const exp = (x: Tensor): Tensor => op('Exp', realOnly, [x]);
export const sigmoid = (x: Tensor): Tensor => op('Sigmoid', realOnly, [x]);
/** dy · y · (1 − y). */
export const sigmoidGrad = (y: Tensor, dy: Tensor): Tensor => op('SigmoidGrad', realOnly, [y, dy]);

/** Along the last axis, which keeps size 1. */
export const sumLast = (x: Tensor): Tensor => op('Sum', reduction, [x, fixed([-1])]);
export const meanLast = (x: Tensor): Tensor => op('Mean', reduction, [x, fixed([-1])]);
export const maxLast = (x: Tensor): Tensor => op('Max', reduction, [x, fixed([-1])]);
/** Over the given axes, which are removed. */
export const sumOver = (x: Tensor, axes: readonly number[]): Tensor => op('Sum', flatReduction, [x, fixed(axes)]);

export const addAll = (xs: readonly Tensor[]): Tensor => {
  const [first] = xs;
  if (first !== undefined && xs.length === 1) return first;
  return op('AddN', [attr.int('N', xs.length), real], xs);
};

export const transpose = (x: Tensor, perm: readonly number[]): Tensor => op('Transpose', permuting, [x, fixed(perm)]);

export const reshape = (x: Tensor, shape: readonly number[]): Tensor =>
  op('Reshape', reshaping, [x, Changing.vector(shape)]);

/** A size of −1 means the rest. An aligned slice along the first axis alone is not copied. */
export const slice = (x: Tensor, begin: readonly number[], size: readonly number[]): Tensor =>
  op('Slice', slicing, [x, Changing.vector(begin), Changing.vector(size)]);

export function concat(xs: readonly Tensor[], axis: number): Tensor {
  const [first] = xs;
  if (first !== undefined && xs.length === 1) return first;
  return op('ConcatV2', [attr.int('N', xs.length), real, attr.type('Tidx', 'int32')], [...xs, fixed(axis)]);
}

/** Zeros after (`after[i]`) along each axis. */
export const padAfter = (x: Tensor, after: readonly number[]): Tensor =>
  op('Pad', padding, [x, Changing.pairs(after.map((n) => [0, n]))]);

/** Rows of `x`, one per index. */
export const gatherRows = (x: Tensor, index: Tensor): Tensor => op('GatherV2', gathering, [x, index, fixed(0)]);

/**
 * The opposite: `count` rows of zeros with `rows` [n, width] written at `index`. Each index occurs at most once, so no
 * result depends on the order of a sum.
 */
export const scatterRows = (rows: Tensor, index: Tensor, count: number, width: number): Tensor =>
  scope(() =>
    op('ScatterNd', scattering, [
      op('Reshape', reshapingIntegers, [index, fixed([-1, 1])]),
      rows,
      Changing.vector([count, width]),
    ]),
  );

/** Row i of the result is the sum of the rows whose index is i. */
export const sumRowsByIndex = (rows: Tensor, index: Tensor, count: number): Tensor =>
  op('UnsortedSegmentSum', segmenting, [rows, index, fixed(count)]);

/** [−log softmax(logits)[label], its gradient softmax − onehot] of shapes [n] and [n, vocabulary], in one pass. */
export function labelLoss(logits: Tensor, labels: Tensor): [Tensor, Tensor] {
  const [loss, gradient] = ops('SparseSoftmaxCrossEntropyWithLogits', labelled, [logits, labels], 2);
  if (loss === undefined || gradient === undefined) throw new Error('TensorFlow gave fewer outputs than the op has');
  return [loss, gradient];
}

/** [n], bool: true where no logit is larger than the label's. */
export const isLargest = (logits: Tensor, labels: Tensor): Tensor =>
  op('InTopKV2', choosing, [logits, labels, fixed(1)]);

/** −Σ p log p of softmax(logits), [n], nats. */
export function entropyOf(logits: Tensor): Tensor {
  return scope(() => {
    const [entropy] = ops('SoftmaxCrossEntropyWithLogits', realOnly, [logits, op('Softmax', realOnly, [logits])], 2);
    if (entropy === undefined) throw new Error('TensorFlow gave fewer outputs than the op has');
    return entropy;
  });
}

/** dH/dz = −p (log p + H) for p = softmax(z), [n, vocabulary]; the entropies H are [n, 1]. */
export function entropySlope(logits: Tensor, entropies: Tensor): Tensor {
  return scope(() => neg(mul(op('Softmax', realOnly, [logits]), add(op('LogSoftmax', realOnly, [logits]), entropies))));
}

/** x · factor; the factor is rounded to float32. */
export const scale = (x: Tensor, factor: number): Tensor => op('Mul', realOnly, [x, Changing.factor(factor)]);
