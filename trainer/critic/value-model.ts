/** A decoder with a linear head that computes one number per position: the value of the prefix before a token. */

import { decode, decodeGradient, type Remember } from '../model/decoder.ts';
import { AdapterGradients } from '../lora/adapter-gradients.ts';
import type { AdapterWeights } from '../lora/adapter-layout.ts';
import { type ModelConfig, valueConfig } from '../model/config.ts';
import { Gradients, type GradientSink } from '../model/gradients.ts';
import { type Tensor, leavingNothing, matMul, reshape, scope } from '../model/layers/kernels.ts';
import { Policy } from '../model/policy.ts';
import { GrowingRotaryTables } from '../model/layers/rotary.ts';
import { longestOf, type TokenBatch } from '../model/token-batch.ts';
import type { Weights } from '../model/weights.ts';
import { tf } from '../tensorflow.ts';

export class ValueModel {
  /** The decoder, with a value head. */
  readonly decoder: Policy;
  readonly gradients: GradientSink;
  /** Same meaning as in `Learner`. */
  gradientCheckpointing = false;
  readonly #tables: GrowingRotaryTables;

  /** With an adapter, only the adapter and the head are trained. Errors: `WrongWeights`, `UnsupportedAdapter`. */
  constructor(config: ModelConfig, weights: Weights, adapterWeights?: AdapterWeights) {
    this.decoder = new Policy(valueConfig(config), weights, adapterWeights);
    const { adapter } = this.decoder;
    this.gradients = adapter === undefined ? new Gradients() : new AdapterGradients(this.decoder, adapter);
    this.#tables = new GrowingRotaryTables(this.decoder.config);
  }

  /** Values at the positions before the tokens that count, in the batch's order. */
  values(batch: TokenBatch): Float32Array {
    return leavingNothing(() => this.#forward(batch, 'none').values.dataSync() as Float32Array);
  }

  /**
   * Forward, then backward with the loss gradient by the values, which `respond` returns. Adds to `gradients`, which
   * are cleared if it fails.
   */
  forwardBackward(batch: TokenBatch, respond: (values: Float32Array) => Float32Array): void {
    try {
      leavingNothing(() => this.#forwardBackward(batch, respond));
    } catch (error) {
      this.gradients.clear();
      throw error;
    }
  }

  dispose(): void {
    this.gradients.clear();
    this.decoder.dispose();
    this.#tables.dispose();
  }

  #forwardBackward(batch: TokenBatch, respond: (values: Float32Array) => Float32Array): void {
    const { hidden, values, saved } = this.#forward(batch, this.gradientCheckpointing ? 'inputs' : 'all');
    const slope = respond(values.dataSync() as Float32Array);
    const column = tf.tensor2d(slope, [slope.length, 1]);
    this.gradients.keep(this.gradients.plus('head', matMul(column, hidden, true)));
    decodeGradient(this.decoder, matMul(column, this.#head()), saved, this.gradients);
  }

  /** [1, hidden], including the final norm's weight. */
  #head(): Tensor {
    return reshape(this.decoder.weights().head, [1, -1]);
  }

  #forward(batch: TokenBatch, remember: Remember) {
    const tables = this.#tables.for(longestOf(batch));
    return scope(() => {
      const { hidden, saved } = decode(this.decoder, batch, tables, remember);
      return { hidden, saved, values: matMul(hidden, this.#head(), false, true) };
    });
  }
}
