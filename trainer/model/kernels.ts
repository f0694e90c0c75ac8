/** TensorFlow's ops as typed functions: attributes are made once, constants are kept, nothing is taped. */

import type { Tensor } from '@tensorflow/tfjs-node-gpu';
import { attr, op, ops, tf } from '../tensorflow.ts';

export type { Tensor };

const real = attr.type('T', 'float32');
const realOnly = [real];
const reduction = [real, attr.type('Tidx', 'int32'), attr.bool('keep_dims', true)];
const flatReduction = [real, attr.type('Tidx', 'int32'), attr.bool('keep_dims', false)];
const permuting = [real, attr.type('Tperm', 'int32')];
const slicing = [real, attr.type('Index', 'int32')];
const padding = [real, attr.type('Tpaddings', 'int32')];
const reshaping = [real, attr.type('Tshape', 'int32')];
const gathering = [
  attr.type('Tparams', 'float32'),
  attr.type('Tindices', 'int32'),
  attr.type('Taxis', 'int32'),
  attr.int('batch_dims', 0),
];
const scattering = [real, attr.type('Tindices', 'int32')];
const segmenting = [real, attr.type('Tindices', 'int32'), attr.type('Tnumsegments', 'int32')];
const labelled = [real, attr.type('Tlabels', 'int32')];

const flags = (a: string, b: string) =>
  [false, true].map((x) => [false, true].map((y) => [real, attr.bool(a, x), attr.bool(b, y)]));
const matMulFlags = flags('transpose_a', 'transpose_b');
const batchMatMulFlags = flags('adj_x', 'adj_y');

/**
 * `tf.tidy` for any result: tensors made in `body` are freed, except those that it returns. The result is walked, so
 * it holds tensors and small objects, never typed arrays.
 */
export function scope<T>(body: () => T): T {
  return tf.tidy(body as unknown as () => Tensor) as unknown as T;
}

const constants = new Map<string, Tensor>();

/** An int32 vector or scalar that lives as long as the process: for axes and permutations, never for data. */
export function constant(values: number | readonly number[]): Tensor {
  const key = String(values) + (typeof values === 'number' ? '' : '[]');
  let tensor = constants.get(key);
  if (tensor === undefined) {
    tensor = tf.keep(typeof values === 'number' ? tf.scalar(values, 'int32') : tf.tensor1d([...values], 'int32'));
    constants.set(key, tensor);
  }
  return tensor;
}

const lastAxis = constant([-1]);
const axis0 = constant(0);

/** [m,k] · [k,n]; `ta`, `tb` read an operand transposed. */
export function matMul(a: Tensor, b: Tensor, ta = false, tb = false): Tensor {
  return op('MatMul', matMulFlags[+ta]?.[+tb] ?? [], [a, b]);
}

/** The same over leading batch dimensions, which broadcast. */
export function batchMatMul(a: Tensor, b: Tensor, ta = false, tb = false): Tensor {
  return op('BatchMatMulV2', batchMatMulFlags[+ta]?.[+tb] ?? [], [a, b]);
}

export const add = (a: Tensor, b: Tensor): Tensor => op('AddV2', realOnly, [a, b]);
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

/** Along the last axis, which stays with size 1. */
export const sumLast = (x: Tensor): Tensor => op('Sum', reduction, [x, lastAxis]);
export const meanLast = (x: Tensor): Tensor => op('Mean', reduction, [x, lastAxis]);
export const maxLast = (x: Tensor): Tensor => op('Max', reduction, [x, lastAxis]);
/** Over the given axes, which go away. */
export const sumOver = (x: Tensor, axes: readonly number[]): Tensor => op('Sum', flatReduction, [x, constant(axes)]);

export const addAll = (xs: readonly Tensor[]): Tensor => {
  const [first] = xs;
  if (first !== undefined && xs.length === 1) return first;
  return op('AddN', [attr.int('N', xs.length), real], xs);
};

export const transpose = (x: Tensor, perm: readonly number[]): Tensor =>
  op('Transpose', permuting, [x, constant(perm)]);

export function reshape(x: Tensor, shape: readonly number[]): Tensor {
  const target = tf.tensor1d([...shape], 'int32');
  const result = op('Reshape', reshaping, [x, target]);
  target.dispose();
  return result;
}

/** A size of −1 is the rest. Along the first axis alone, and aligned, nothing is copied. */
export function slice(x: Tensor, begin: readonly number[], size: readonly number[]): Tensor {
  const [from, count] = [tf.tensor1d([...begin], 'int32'), tf.tensor1d([...size], 'int32')];
  const result = op('Slice', slicing, [x, from, count]);
  tf.dispose([from, count]);
  return result;
}

export function concat(xs: readonly Tensor[], axis: number): Tensor {
  const [first] = xs;
  if (first !== undefined && xs.length === 1) return first;
  return op('ConcatV2', [attr.int('N', xs.length), real, attr.type('Tidx', 'int32')], [...xs, constant(axis)]);
}

/** Zeros after (`after[i]`) along each axis. */
export function padAfter(x: Tensor, after: readonly number[]): Tensor {
  const pads = tf.tensor2d(
    after.map((n) => [0, n]),
    [after.length, 2],
    'int32',
  );
  const result = op('Pad', padding, [x, pads]);
  pads.dispose();
  return result;
}

/** Rows of `x`, one per index. */
export const gatherRows = (x: Tensor, index: Tensor): Tensor => op('GatherV2', gathering, [x, index, axis0]);

/** The opposite: `rows` put at `index` (each at most once, so that no sum has an order) among `count` rows of zeros. */
export function scatterRows(rows: Tensor, index: Tensor, count: number): Tensor {
  const width = rows.shape[1] ?? 1;
  const column = reshape32(index, [-1, 1]);
  const shape = tf.tensor1d([count, width], 'int32');
  const result = op('ScatterNd', scattering, [column, rows, shape]);
  tf.dispose([column, shape]);
  return result;
}

function reshape32(x: Tensor, shape: readonly number[]): Tensor {
  return op('Reshape', [attr.type('T', 'int32'), attr.type('Tshape', 'int32')], [x, constant(shape)]);
}

/** Row i of the result is the sum of the rows whose index is i. */
export function sumRowsByIndex(rows: Tensor, index: Tensor, count: number): Tensor {
  return op('UnsortedSegmentSum', segmenting, [rows, index, constant(count)]);
}

/** [−log softmax(logits)[label], its gradient softmax − onehot] of shapes [n] and [n, vocabulary], in one pass. */
export function labelLoss(logits: Tensor, labels: Tensor): [Tensor, Tensor] {
  const [loss, gradient] = ops('SparseSoftmaxCrossEntropyWithLogits', labelled, [logits, labels], 2);
  if (loss === undefined || gradient === undefined) throw new Error('TensorFlow gave fewer outputs than the op has');
  return [loss, gradient];
}

/** −Σ p log p of softmax(logits), [n], nats. */
export function entropyOf(logits: Tensor): Tensor {
  const probabilities = op('Softmax', realOnly, [logits]);
  const [entropy, gradient] = ops('SoftmaxCrossEntropyWithLogits', realOnly, [logits, probabilities], 2);
  if (entropy === undefined || gradient === undefined) throw new Error('TensorFlow gave fewer outputs than the op has');
  tf.dispose([probabilities, gradient]);
  return entropy;
}

/** dH/dz = −p (log p + H) for p = softmax(z), [n, vocabulary]; the entropies H are [n, 1]. */
export function entropySlope(logits: Tensor, entropies: Tensor): Tensor {
  return tf.tidy(() => neg(mul(op('Softmax', realOnly, [logits]), add(op('LogSoftmax', realOnly, [logits]), entropies))));
}

/** x · factor; the factor is rounded to float32. */
export function scale(x: Tensor, factor: number): Tensor {
  const scalar = tf.scalar(factor);
  const result = mul(x, scalar);
  scalar.dispose();
  return result;
}
