/** Runs ops: each at once, in a call of its own; inside `inGraph` they are recorded, and run together in one call. */

import type { Tensor } from '@tensorflow/tfjs-node-gpu';
import type { TensorId } from '../../graph/device-tensors.ts';
import { Traced, TracedGraph } from '../../graph/traced-graph.ts';
import { type OpAttribute, idOf, op as runOp, ops as runOps, tensorOf, tf } from '../../tensorflow.ts';

/** The graph that records ops; `undefined`: ops run at once. */
let graph: TracedGraph | undefined;

/** Numbers that may differ in the next run of a graph: a shape, an offset, a factor. */
export class Changing {
  readonly shape: readonly number[];
  readonly values: Int32Array | Float32Array;

  private constructor(shape: readonly number[], values: Int32Array | Float32Array) {
    this.shape = shape;
    this.values = values;
  }

  /** An int32 vector. */
  static vector = (values: readonly number[]): Changing => new Changing([values.length], Int32Array.from(values));
  /** [n, 2], int32. */
  static pairs = (pairs: ReadonlyArray<readonly [number, number]>): Changing =>
    new Changing([pairs.length, 2], Int32Array.from(pairs.flat()));
  /** A scalar, float32. */
  static factor = (value: number): Changing => new Changing([], Float32Array.of(value));
}

export type Input = Tensor | Changing;

const asTensor = (traced: Traced): Tensor => traced as unknown as Tensor;

function asTraced(into: TracedGraph, x: Input): Traced {
  if (x instanceof Changing) return into.changing(x);
  if ((x as unknown) instanceof Traced) return x as unknown as Traced;
  return into.given(idOf(x) as TensorId, x.dtype === 'int32' ? 'int32' : 'float32');
}

/** Calls `run` with numbers as tensors, and frees those afterwards. */
function withTensors<T>(inputs: readonly Input[], run: (tensors: readonly Tensor[]) => T): T {
  const made: Tensor[] = [];
  const tensors = inputs.map((x) => {
    if (!(x instanceof Changing)) return x;
    const tensor = tf.tensor(x.values, [...x.shape], x.values instanceof Int32Array ? 'int32' : 'float32');
    made.push(tensor);
    return tensor;
  });
  const result = run(tensors);
  for (const tensor of made) tensor.dispose();
  return result;
}

/** Runs one op with `outputs` results. */
export function ops(
  name: string,
  attributes: readonly OpAttribute[],
  inputs: readonly Input[],
  outputs: number,
): Tensor[] {
  const into = graph;
  if (into === undefined) return withTensors(inputs, (tensors) => runOps(name, attributes, tensors, outputs));
  return into
    .run(
      name,
      attributes,
      inputs.map((x) => asTraced(into, x)),
      outputs,
    )
    .map(asTensor);
}

export function op(name: string, attributes: readonly OpAttribute[], inputs: readonly Input[]): Tensor {
  if (graph === undefined) return withTensors(inputs, (tensors) => runOp(name, attributes, tensors));
  const [result] = ops(name, attributes, inputs, 1);
  if (result === undefined) throw new Error(`${name} returned nothing`);
  return result;
}

/**
 * `tf.tidy` for any result: frees the tensors that `body` makes, except those that it returns. It walks the result,
 * which must consist of tensors and small objects, never of typed arrays.
 */
export function scope<T>(body: () => T): T {
  return graph === undefined ? (tf.tidy(body as unknown as () => Tensor) as unknown as T) : body();
}

/** Frees all tensors that `body` makes and does not keep, also if it throws. Its result must not be a tensor. */
export function leavingNothing<T>(body: () => T): T {
  let result: { readonly value: T } | undefined;
  scope(() => {
    result = { value: body() };
  });
  if (result === undefined) throw new Error('nothing was computed');
  return result.value;
}

const constants = new Map<string, Tensor>();

/** An int32 vector or scalar that is the same in every run: for axes and permutations, never for data. */
export function fixed(values: number | readonly number[]): Tensor {
  if (graph !== undefined) return asTensor(graph.integers(values));
  const key = String(values) + (typeof values === 'number' ? '' : '[]');
  let tensor = constants.get(key);
  if (tensor === undefined) {
    tensor = tf.keep(typeof values === 'number' ? tf.scalar(values, 'int32') : tf.tensor1d([...values], 'int32'));
    constants.set(key, tensor);
  }
  return tensor;
}

/** Adds each traced value in `value` to `found`. */
function collect(value: unknown, found: Map<number, Traced>): void {
  if (value instanceof Traced) found.set(value.index, value);
  else if (value !== null && typeof value === 'object' && !(value instanceof tf.Tensor))
    for (const part of Object.values(value)) collect(part, found);
}

function replaced(value: unknown, by: ReadonlyMap<number, Tensor | undefined>): unknown {
  if (value instanceof Traced) return by.get(value.index);
  if (value === null || typeof value !== 'object' || value instanceof tf.Tensor) return value;
  if (Array.isArray(value)) return value.map((part) => replaced(part, by));
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, replaced(part, by)]));
}

/** The result of `body`; its ops are recorded in `into`. */
function writtenInto<T>(into: TracedGraph, body: () => T): T {
  graph = into;
  try {
    return body();
  } finally {
    graph = undefined;
  }
}

/**
 * Runs the ops of `body` as one graph. Only the tensors in its result outlive the call (arrays and plain objects are
 * walked). `body` must not read a tensor, nor the shape of a tensor that was made in it. Inside another `inGraph`, the
 * ops become part of that graph.
 */
export function inGraph<T>(body: () => T): T {
  if (graph !== undefined) return body();
  return scope(() => {
    const into = new TracedGraph();
    const result = writtenInto(into, body);
    const wanted = new Map<number, Traced>();
    collect(result, wanted);
    const made = into.compute([...wanted.values()]).map(tensorOf);
    return replaced(result, new Map([...wanted.keys()].map((index, i) => [index, made[i]]))) as T;
  });
}
