/**
 * The keys and values of all slots, in TensorFlow variables that are updated in place: per layer one for keys and one
 * for values, `[pages, kvHeads, pageSize, headDim]`. Only the pages that a pass needs are ever read.
 */

import { attr } from '../../tensorflow.ts';
import { type CacheLayout, pageCount, pageSize } from './batch-plan.ts';
import { Frame, type TensorId, attributes } from './raw-ops.ts';

const variable = attr.type('dtype', 'float32');
const gather = [
  variable,
  attr.type('Tindices', 'int32'),
  attr.int('batch_dims', 0),
  attr.bool('validate_indices', false),
];
const scatter = [attr.type('T', 'float32'), attr.type('Tindices', 'int32'), attr.bool('use_locking', false)];
const scatterRows = [variable, attr.type('Tindices', 'int32')];

let made = 0;

export class KvCache {
  readonly layout: CacheLayout;
  readonly #frame = new Frame();
  readonly #keys: readonly TensorId[];
  readonly #values: readonly TensorId[];

  constructor(layers: number, headDim: number, layout: CacheLayout) {
    this.layout = layout;
    const shape = [pageCount(layout), layout.kvHeads, pageSize, headDim];
    this.#keys = Array.from({ length: layers }, () => this.#zeros(shape));
    this.#values = Array.from({ length: layers }, () => this.#zeros(shape));
  }

  /** Writes `[tokens * kvHeads, headDim]` each at `indices`, `[tokens * kvHeads, 3]`. */
  write(frame: Frame, layer: number, indices: TensorId, keys: TensorId, values: TensorId): void {
    frame.act('ResourceScatterNdUpdate', scatter, [this.#at(this.#keys, layer), indices, keys]);
    frame.act('ResourceScatterNdUpdate', scatter, [this.#at(this.#values, layer), indices, values]);
  }

  /** Pages `[chunks]` as `[chunks, kvHeads, pageSize, headDim]`. */
  keys(frame: Frame, layer: number, pages: TensorId): TensorId {
    return frame.run('ResourceGather', gather, [this.#at(this.#keys, layer), pages]);
  }

  values(frame: Frame, layer: number, pages: TensorId): TensorId {
    return frame.run('ResourceGather', gather, [this.#at(this.#values, layer), pages]);
  }

  /** Copies whole pages `from[i]` to `to[i]` in every layer. */
  copyPages(frame: Frame, from: readonly number[], to: readonly number[]): void {
    const [source, target] = [Int32Array.from(from), Int32Array.from(to)].map((ids) => frame.ints([ids.length], ids));
    if (source === undefined || target === undefined) return;
    for (const handle of [...this.#keys, ...this.#values]) {
      const rows = frame.run('ResourceGather', gather, [handle, source]);
      frame.act('ResourceScatterUpdate', scatterRows, [handle, target, rows]);
      frame.free([rows]);
    }
  }

  /** Gives the memory back; the cache is of no use afterwards. */
  dispose(): void {
    for (const handle of [...this.#keys, ...this.#values]) {
      this.#frame.act('DestroyResourceOp', [attr.bool('ignore_lookup_error', true)], [handle]);
    }
    this.#frame.end();
  }

  #at(handles: readonly TensorId[], layer: number): TensorId {
    const handle = handles[layer];
    if (handle === undefined) throw new RangeError(`layer ${layer} of ${handles.length}`);
    return handle;
  }

  #zeros(shape: readonly number[]): TensorId {
    made += 1;
    const handle = this.#frame.run(
      'VarHandleOp',
      [
        attr.string('container', ''),
        attr.string('shared_name', `longhaul-kv-${made}`),
        variable,
        attr.shape('shape', shape),
      ],
      [],
    );
    const dims = this.#frame.ints([shape.length], Int32Array.from(shape));
    const zero = this.#frame.floats([], new Float32Array(1));
    const initial = this.#frame.run(
      'Fill',
      [...attributes.elementwise, attr.type('index_type', 'int32')],
      [dims, zero],
    );
    this.#frame.act('AssignVariableOp', [variable], [handle, initial]);
    this.#frame.free([initial, dims, zero]);
    return handle;
  }
}
