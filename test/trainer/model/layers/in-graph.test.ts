/**
 * Hunts a graph that computes something else than its ops one by one, that uses the sizes of an earlier run, or that
 * does not run the next ops after a failure. It does not assert which ops TensorFlow fuses: results have a tolerance.
 */

import { expect, test } from 'vitest';
import {
  type Tensor,
  add,
  concat,
  inGraph,
  matMul,
  mul,
  padAfter,
  reshape,
  scale,
  sigmoid,
  slice,
  sumOver,
  transpose,
} from '../../../../trainer/model/layers/kernels.ts';
import { tf } from '../../../../trainer/tensorflow.ts';

/** Sizes, offsets and a factor that differ from run to run, shared inputs, and a result that is a tree. */
function compute(
  x: Tensor,
  y: Tensor,
  rows: number,
  factor: number,
): { sums: Tensor[]; wide: { product: Tensor; given: Tensor } } {
  const product = matMul(x, y, false, true);
  const part = slice(product, [1, 0], [rows, -1]);
  const flat = reshape(mul(part, sigmoid(part)), [-1]);
  const padded = padAfter(reshape(flat, [rows, -1]), [1, 2]);
  return {
    sums: [sumOver(padded, [0]), scale(sumOver(transpose(padded, [1, 0]), [1]), factor)],
    wide: { product: concat([product, add(product, product)], 1), given: x },
  };
}

const numbers = (rows: number, columns: number): Tensor =>
  tf.tensor2d(
    Float32Array.from({ length: rows * columns }, (_, i) => Math.sin(i)),
    [rows, columns],
  );

const valuesOf = (tree: ReturnType<typeof compute>) =>
  [...tree.sums, tree.wide.product].map((one) => ({ shape: one.shape, values: one.dataSync() }));

test('gives the results of the ops one by one, for any sizes', () => {
  for (const [rows, columns, factor] of [
    [4, 3, 2],
    [7, 5, -1],
    [4, 3, 0.5],
  ] as const) {
    const [x, y] = [numbers(rows, columns), numbers(6, columns)];
    const [apart, together] = [compute(x, y, rows - 2, factor), inGraph(() => compute(x, y, rows - 2, factor))];
    expect(together.wide.given).toBe(x);
    for (const [i, { shape, values }] of valuesOf(together).entries()) {
      const wanted = valuesOf(apart)[i];
      expect(shape).toEqual(wanted?.shape);
      values.forEach((value, at) => expect(value).toBeCloseTo(wanted?.values[at] ?? NaN, 5));
    }
    tf.dispose([x, y, ...apart.sums, apart.wide.product, ...together.sums, together.wide.product]);
  }
});

test('one inside another is part of it, and the same graph twice gives the same bits', () => {
  const [x, y] = [numbers(5, 4), numbers(6, 4)];
  const { numTensors: before } = tf.memory();
  const [once, twice] = [1, 2].map(() =>
    inGraph(() =>
      compute(
        x,
        inGraph(() => add(y, y)),
        3,
        1,
      ),
    ),
  );
  expect(valuesOf(twice!)).toEqual(valuesOf(once!));
  expect(tf.memory().numTensors).toBe(before + 6);
  tf.dispose([once, twice] as never);
});

test('after a failure ops run at once again, and no tensor is left', () => {
  const x = numbers(2, 2);
  const { numTensors: before } = tf.memory();
  expect(() =>
    inGraph(() => {
      throw new RangeError('no');
    }),
  ).toThrow('no');
  expect(() => inGraph(() => matMul(x, reshape(x, [4, 1])))).toThrow();
  expect(tf.memory().numTensors).toBe(before);
  const sum = add(x, x);
  expect([...sum.dataSync()]).toEqual([...x.dataSync()].map((value) => value + value));
  tf.dispose([x, sum]);
});
