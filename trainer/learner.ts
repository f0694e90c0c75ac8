/** A policy being trained: log-probabilities of the tokens that count, and gradients of any function of them. */

import { type DecoderSaved, decode, decodeGradient } from './model/decoder.ts';
import type { AdapterWeights } from './lora/adapter-layout.ts';
import { AdapterGradients } from './lora/adapter-gradients.ts';
import { Gradients, type GradientSink } from './model/gradients.ts';
import { type Tensor, entropyOf, labelLoss, matMul, mul, scope } from './model/kernels.ts';
import { Policy } from './model/policy.ts';
import { RotaryTables } from './model/rotary.ts';
import type { TokenBatch } from './model/token-batch.ts';
import type { ModelConfig } from './model/config.ts';
import type { Weights } from './model/weights.ts';
import { tf } from './tensorflow.ts';

/** What is known of the tokens that count, in the batch's order; nats. */
export interface TokenStatistics {
  readonly logprobs: Float32Array;
  /** Of the distribution that each was drawn from; only when asked for. */
  readonly entropies: Float32Array | undefined;
}

interface Forward {
  readonly hidden: Tensor;
  readonly saved: DecoderSaved;
  readonly losses: Tensor;
  /** softmax − onehot. */
  readonly slope: Tensor;
  readonly entropies: Tensor | undefined;
}

export class Learner {
  readonly policy: Policy;
  readonly gradients: GradientSink;
  #tables: RotaryTables | undefined;

  /** With an adapter, it alone is trained. Errors: `WrongWeights`, `UnsupportedAdapter`. */
  constructor(config: ModelConfig, weights: Weights, adapterWeights?: AdapterWeights) {
    this.policy = new Policy(config, weights, adapterWeights);
    const { adapter } = this.policy;
    this.gradients = adapter === undefined ? new Gradients() : new AdapterGradients(this.policy, adapter);
  }

  /** Forward alone. */
  statistics(batch: TokenBatch, withEntropy: boolean): TokenStatistics {
    const forward = this.#forward(batch, withEntropy);
    const statistics = read(forward);
    tf.dispose(tensorsOf(forward));
    return statistics;
  }

  /**
   * Forward, then backward for the gradient that `respond` gives: dL/d(log-probability) for each token that counts.
   * Adds to `gradients`.
   */
  learn(batch: TokenBatch, withEntropy: boolean, respond: (statistics: TokenStatistics) => Float32Array): void {
    const forward = this.#forward(batch, withEntropy);
    const given = respond(read(forward));
    // The op's loss is −log p, and so is its slope's.
    const scale = tf.tensor2d(
      given.map((g) => -g),
      [given.length, 1],
    );
    const dHidden = scope(() => {
      const dLogits = mul(forward.slope, scale);
      if (this.gradients.wants('head')) this.gradients.add('head', matMul(dLogits, forward.hidden, true));
      return matMul(dLogits, this.policy.weights().head);
    });
    decodeGradient(this.policy, dHidden, forward.saved, this.gradients);
    tf.dispose([dHidden, scale, ...tensorsOf(forward)]);
  }

  dispose(): void {
    this.gradients.clear();
    this.policy.dispose();
    this.#tables?.dispose();
  }

  #forward(batch: TokenBatch, withEntropy: boolean): Forward {
    const tables = this.#tablesFor(batch.length);
    return scope(() => {
      const { hidden, saved } = decode(this.policy, batch, tables);
      const logits = matMul(hidden, this.policy.weights().head, false, true);
      const [losses, slope] = labelLoss(logits, tf.tensor1d(batch.labels, 'int32'));
      return { hidden, saved, losses, slope, entropies: withEntropy ? entropyOf(logits) : undefined };
    });
  }

  #tablesFor(length: number): RotaryTables {
    if (this.#tables === undefined || this.#tables.capacity < length) {
      this.#tables?.dispose();
      this.#tables = new RotaryTables(this.policy.config, Math.max(1024, length));
    }
    return this.#tables;
  }
}

function read({ losses, entropies }: Forward): TokenStatistics {
  return {
    logprobs: (losses.dataSync() as Float32Array).map((loss) => -loss),
    entropies: entropies?.dataSync() as Float32Array | undefined,
  };
}

/** The tensors of a forward pass, found once each; not the kept ones, which belong to others. */
function tensorsOf(value: unknown, found = new Set<Tensor>()): Tensor[] {
  if (value instanceof tf.Tensor) {
    if (!value.kept) found.add(value);
  } else if (Array.isArray(value)) for (const item of value) tensorsOf(item, found);
  else if (value !== null && typeof value === 'object') for (const item of Object.values(value)) tensorsOf(item, found);
  return [...found];
}
