/**
 * The only file that loads TensorFlow. On a processor, it checks that oneDNN is on. Errors: `NotSetUp` if it is
 * missing.
 */

import { createRequire } from 'node:module';
import util from 'node:util';
import type * as Tf from '@tensorflow/tfjs-node-gpu';
import { findEngine, NotSetUp } from '#setup/engine/engine-package.mjs';
import { prepareTensorflowEnvironment } from './tensorflow-environment.ts';

/** TensorFlow is installed, but would not compute the same bits. */
export class UnsuitableTensorflow extends Error {
  override readonly name = 'UnsuitableTensorflow';
}

type AttributeValue = boolean | number | string | readonly number[];

/** One attribute of a TensorFlow op, in the binding's form. Create it once with `attr`; it is never changed. */
export interface OpAttribute {
  readonly name: string;
  readonly type: number;
  readonly value: AttributeValue;
}

export type OpDtype = 'float32' | 'int32' | 'int64' | 'bool' | 'resource';

/** The binding's description of a tensor that it created. */
export interface TensorMetadata {
  readonly id: number;
  readonly shape: readonly number[];
  readonly dtype: number;
}

interface Binding {
  readonly TF_FLOAT: number;
  readonly TF_INT32: number;
  readonly TF_INT64: number;
  readonly TF_BOOL: number;
  readonly TF_RESOURCE: number;
  readonly TF_ATTR_STRING: number;
  readonly TF_ATTR_INT: number;
  readonly TF_ATTR_FLOAT: number;
  readonly TF_ATTR_BOOL: number;
  readonly TF_ATTR_TYPE: number;
  readonly TF_ATTR_SHAPE: number;
  readonly TF_Version: string;
}

interface Backend {
  readonly binding: Binding;
  readonly isUsingGpuDevice: boolean;
  getInputTensorIds(tensors: readonly Tf.TensorInfo[]): number[];
  createOutputTensor(metadata: TensorMetadata): Tf.Tensor;
  executeSingleOutput(name: string, attributes: readonly OpAttribute[], inputs: readonly Tf.TensorInfo[]): Tf.Tensor;
  executeMultipleOutputs(
    name: string,
    attributes: readonly OpAttribute[],
    inputs: readonly Tf.TensorInfo[],
    outputs: number,
  ): Tf.Tensor[];
}

function load(): typeof Tf {
  prepareTensorflowEnvironment();
  // The package calls two helpers that Node 23 removed.
  const legacy = util as { isNullOrUndefined?: (x: unknown) => boolean; isArray?: (x: unknown) => boolean };
  legacy.isNullOrUndefined ??= (x) => x === null || x === undefined;
  legacy.isArray ??= (x) => Array.isArray(x);
  const engine = findEngine();
  if (engine === undefined) throw new NotSetUp('the engine');
  return createRequire(import.meta.url)(engine) as typeof Tf;
}

export const tf: typeof Tf = load();
const backend = tf.backend() as unknown as Backend;
const binding = backend.binding;

export const tensorflow = { version: binding.TF_Version, gpu: backend.isUsingGpuDevice } as const;

const dtypes: Record<OpDtype, number> = {
  float32: binding.TF_FLOAT,
  int32: binding.TF_INT32,
  int64: binding.TF_INT64,
  bool: binding.TF_BOOL,
  resource: binding.TF_RESOURCE,
};

export const attr = {
  type: (name: string, dtype: OpDtype): OpAttribute => ({ name, type: binding.TF_ATTR_TYPE, value: dtypes[dtype] }),
  bool: (name: string, value: boolean): OpAttribute => ({ name, type: binding.TF_ATTR_BOOL, value }),
  int: (name: string, value: number | readonly number[]): OpAttribute => ({ name, type: binding.TF_ATTR_INT, value }),
  float: (name: string, value: number): OpAttribute => ({ name, type: binding.TF_ATTR_FLOAT, value }),
  string: (name: string, value: string): OpAttribute => ({ name, type: binding.TF_ATTR_STRING, value }),
  shape: (name: string, value: readonly number[]): OpAttribute => ({ name, type: binding.TF_ATTR_SHAPE, value }),
} as const;

/** Runs one TensorFlow op by its name; the result is tracked by `tf.tidy` like any other tensor. */
export function op<T extends Tf.Tensor = Tf.Tensor>(
  name: string,
  attributes: readonly OpAttribute[],
  inputs: readonly Tf.TensorInfo[],
): T {
  return backend.executeSingleOutput(name, attributes, inputs) as T;
}

/** Like `op`, for an op with `outputs` results (0 for an op without a result, such as an assignment). */
export function ops(
  name: string,
  attributes: readonly OpAttribute[],
  inputs: readonly Tf.TensorInfo[],
  outputs: number,
): Tf.Tensor[] {
  return backend.executeMultipleOutputs(name, attributes, inputs, outputs);
}

/** Possible values of an attribute's `type`. */
export const attributeTypes = {
  type: binding.TF_ATTR_TYPE,
  bool: binding.TF_ATTR_BOOL,
  int: binding.TF_ATTR_INT,
} as const;

/** The element type for the binding's number. */
export function dtypeOf(value: number): 'float32' | 'int32' {
  if (value === binding.TF_FLOAT) return 'float32';
  if (value === binding.TF_INT32) return 'int32';
  throw new TypeError(`${value} is neither float32 nor int32`);
}

/** The binding's id of a tensor. The tensor still owns it. */
export function idOf(tensor: Tf.TensorInfo): number {
  const [id] = backend.getInputTensorIds([tensor]);
  if (id === undefined) throw new Error('a tensor without an id');
  return id;
}

/** A tensor for one that the binding created; tracked by `tf.tidy` like any other. */
export const tensorOf = (metadata: TensorMetadata): Tf.Tensor => backend.createOutputTensor(metadata);

/**
 * True if a row of a product has the same bits alone as with other rows: so with oneDNN, not with Eigen. This tests the
 * property itself; the environment variable would only show what was requested.
 */
function rowsAreIndependent(): boolean {
  const [m, k, n] = [7, 128, 384];
  const noise = (length: number, factor: number): Float32Array =>
    Float32Array.from({ length }, (_, i) => (Math.imul(i + 1, factor) >> 8) / 2 ** 23);
  const a = tf.tensor2d(noise(m * k, 0x9e3779b1), [m, k]);
  const b = tf.tensor2d(noise(k * n, 0x85ebca6b), [k, n]);
  const first = a.slice([0, 0], [1, k]);
  const [together, alone] = [tf.matMul(a, b), tf.matMul(first, b)];
  const [x, y] = [together.dataSync(), alone.dataSync()];
  tf.dispose([a, b, first, together, alone]);
  return y.every((value, j) => value === x[j]);
}

if (!backend.isUsingGpuDevice && process.arch === 'x64' && !rowsAreIndependent()) {
  throw new UnsuitableTensorflow(
    'TensorFlow runs without oneDNN: TF_ENABLE_ONEDNN_OPTS was 0 when the process started. Unset it, ' +
      'then start the process again',
  );
}
