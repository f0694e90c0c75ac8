/** TensorFlow's tensors by their ids, without tfjs objects to track. Every id belongs to one frame, which frees it. */

import { tf } from '../tensorflow.ts';

/** A tensor of TensorFlow's eager runtime. The type does not hold its shape; a comment beside it does. */
export type TensorId = number & { readonly brand: 'tensor' };

interface Binding {
  readonly TF_FLOAT: number;
  readonly TF_INT32: number;
  createTensor(shape: readonly number[], dtype: number, data: Float32Array | Int32Array): TensorId;
  deleteTensor(id: TensorId): void;
  tensorDataSync(id: TensorId): Float32Array | Int32Array;
}

const { binding } = tf.backend() as unknown as { readonly binding: Binding };

/** Tensors that live until `end`: those of one pass, or a model's constants. */
export class Frame {
  readonly #live: TensorId[] = [];

  floats(shape: readonly number[], data: Float32Array): TensorId {
    return this.keep(binding.createTensor(shape, binding.TF_FLOAT, data));
  }

  /** The array is shared with TensorFlow, not copied: do not write to it afterwards. */
  ints(shape: readonly number[], data: Int32Array): TensorId {
    return this.keep(binding.createTensor(shape, binding.TF_INT32, data));
  }

  /** Adds a tensor that was made elsewhere; the frame owns it from then on. */
  keep(id: TensorId): TensorId {
    this.#live.push(id);
    return id;
  }

  readFloats(id: TensorId): Float32Array {
    const data = binding.tensorDataSync(id);
    if (!(data instanceof Float32Array)) throw new TypeError('not a float32 tensor');
    return data;
  }

  end(): void {
    for (const id of this.#live.splice(0)) binding.deleteTensor(id);
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
