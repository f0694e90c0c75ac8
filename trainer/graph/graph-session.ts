/**
 * A graph in a TensorFlow session of its own: a run is one call into the library, for any number of ops, and its
 * variables live until `dispose`.
 */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TensorMetadata, tf } from '../tensorflow.ts';
import type { TensorId } from './device-tensors.ts';
import type { Edge, GraphNode } from './graph-builder.ts';
import { encodeSavedModel, SERVE } from './saved-model.ts';

interface Binding {
  loadSavedModel(dir: string, tags: string): number;
  runSavedModel(
    id: number,
    inputs: readonly TensorId[],
    inputNames: string,
    outputNames: string,
  ): readonly TensorMetadata[];
  deleteSavedModel(id: number): void;
}

const { binding } = tf.backend() as unknown as { readonly binding: Binding };

/** The inputs and the output of a run. The names are joined once, because that takes a good part of a run. */
export interface Signature {
  readonly inputs: string;
  readonly output: string;
}

export const signature = (inputs: readonly Edge[], output: Edge): Signature => ({ inputs: inputs.join(), output });

export class GraphSession {
  readonly #id: number;

  constructor(nodes: readonly GraphNode[]) {
    // The library reads a SavedModel from a directory only.
    const dir = mkdtempSync(join(tmpdir(), 'longhaul-graph-'));
    try {
      writeFileSync(join(dir, 'saved_model.pb'), encodeSavedModel(nodes));
      this.#id = binding.loadSavedModel(dir, SERVE);
    } finally {
      rmSync(dir, { recursive: true });
    }
  }

  /** `feeds`: in the order of the signature's inputs. The caller frees the result. */
  run({ inputs, output }: Signature, feeds: readonly TensorId[]): TensorId {
    const [result] = binding.runSavedModel(this.#id, feeds, inputs, output);
    if (result === undefined) throw new Error(`${output} returned nothing`);
    return result.id as TensorId;
  }

  /** The same for several outputs; names are joined by commas. */
  runAll(inputs: string, outputs: string, feeds: readonly TensorId[]): readonly TensorMetadata[] {
    return binding.runSavedModel(this.#id, feeds, inputs, outputs);
  }

  dispose(): void {
    binding.deleteSavedModel(this.#id);
  }
}
