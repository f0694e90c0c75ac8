/**
 * TensorFlow ops on bare tensor ids: a third of the cost of a tfjs call, and no garbage for tfjs to track. Every id
 * belongs to one frame, which frees it at the latest when it ends.
 */

import { type OpAttribute, attr, tf } from '../../tensorflow.ts';

/** A tensor of TensorFlow's eager runtime. It says nothing of its shape: the comment beside it does. */
export type TensorId = number & { readonly brand: 'tensor' };

interface Binding {
  readonly TF_FLOAT: number;
  readonly TF_INT32: number;
  createTensor(shape: readonly number[], dtype: number, data: Float32Array | Int32Array): TensorId;
  deleteTensor(id: TensorId): void;
  tensorDataSync(id: TensorId): Float32Array | Int32Array;
  executeOp(
    name: string,
    attributes: readonly OpAttribute[],
    inputs: readonly TensorId[],
    outputs: number,
  ): ReadonlyArray<{ readonly id: TensorId }>;
}

const { binding } = tf.backend() as unknown as { readonly binding: Binding };

/** What lives until `end`: a forward pass, or a model's constants. */
export class Frame {
  readonly #live = new Set<TensorId>();

  floats(shape: readonly number[], data: Float32Array): TensorId {
    return this.#track(binding.createTensor(shape, binding.TF_FLOAT, data));
  }

  /** The array is shared with TensorFlow, not copied: do not write to it afterwards. */
  ints(shape: readonly number[], data: Int32Array): TensorId {
    return this.#track(binding.createTensor(shape, binding.TF_INT32, data));
  }

  /** Runs an op with one result; `spent` are inputs that nothing needs any more, freed at once. */
  run(name: string, attributes: readonly OpAttribute[], inputs: readonly TensorId[], ...spent: TensorId[]): TensorId {
    const [output] = binding.executeOp(name, attributes, inputs, 1);
    if (output === undefined) throw new Error(`${name} returned nothing`);
    this.free(spent);
    return this.#track(output.id);
  }

  split(name: string, attributes: readonly OpAttribute[], inputs: readonly TensorId[], outputs: number): TensorId[] {
    return binding.executeOp(name, attributes, inputs, outputs).map(({ id }) => this.#track(id));
  }

  /** Runs an op for its effect. */
  act(name: string, attributes: readonly OpAttribute[], inputs: readonly TensorId[]): void {
    binding.executeOp(name, attributes, inputs, 0);
  }

  readFloats(id: TensorId): Float32Array {
    const data = binding.tensorDataSync(id);
    if (!(data instanceof Float32Array)) throw new TypeError('not a float32 tensor');
    return data;
  }

  free(ids: readonly TensorId[]): void {
    for (const id of ids) {
      if (this.#live.delete(id)) binding.deleteTensor(id);
    }
  }

  end(): void {
    for (const id of this.#live) binding.deleteTensor(id);
    this.#live.clear();
  }

  #track(id: TensorId): TensorId {
    this.#live.add(id);
    return id;
  }
}

/** Runs `body` in a frame of its own. */
export function inFrame<T>(body: (frame: Frame) => T): T {
  const frame = new Frame();
  try {
    return body(frame);
  } finally {
    frame.end();
  }
}

const float = attr.type('T', 'float32');

/** Attributes of the ops used here: made once, since making them is a good part of a call. */
export const attributes = {
  elementwise: [float],
  matMul: [float, attr.bool('transpose_a', false), attr.bool('transpose_b', false)],
  batchMatMul: [float, attr.bool('adj_x', false), attr.bool('adj_y', false)],
  batchMatMulTransposed: [float, attr.bool('adj_x', false), attr.bool('adj_y', true)],
  reshape: [float, attr.type('Tshape', 'int32')],
  transpose: [float, attr.type('Tperm', 'int32')],
  gather: [
    attr.type('Tparams', 'float32'),
    attr.type('Tindices', 'int32'),
    attr.type('Taxis', 'int32'),
    attr.int('batch_dims', 0),
  ],
  segment: [float, attr.type('Tindices', 'int32')],
  max: [float, attr.type('Tidx', 'int32'), attr.bool('keep_dims', true)],
  splitBySize: (parts: number): OpAttribute[] => [float, attr.type('Tlen', 'int32'), attr.int('num_split', parts)],
} as const;
