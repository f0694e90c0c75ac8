/** A policy being trained: log-probabilities of the tokens that count, and gradients of any function of them. */

import { type DecoderSaved, decode, decodeGradient } from './model/decoder.ts';
import type { AdapterWeights } from './lora/adapter-layout.ts';
import { AdapterGradients } from './lora/adapter-gradients.ts';
import { Gradients, type GradientSink } from './model/gradients.ts';
import { type Tensor, add, entropyOf, entropySlope, labelLoss, matMul, mul, reshape, scope } from './model/kernels.ts';
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

/** dL/d of each token that counts. */
export interface TokenGradient {
  readonly logprobs: Float32Array;
  /** By the entropy of the distribution that it was drawn from; left out: none. */
  readonly entropies?: Float32Array;
}

interface Forward {
  /** d entropy / d logits, where entropies are trained. */
  readonly entropySlope: Tensor | undefined;
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
   * Forward, then backward for the gradient that `respond` gives: by the log-probability of each token that counts (an
   * array alone), and by entropies where these are `trained`. Adds to `gradients`.
   */
  learn(batch: TokenBatch, entropy: boolean | 'trained', respond: (statistics: TokenStatistics) => Float32Array | TokenGradient): void {
    const forward = this.#forward(batch, entropy);
    const answer = respond(read(forward));
    const given: TokenGradient = answer instanceof Float32Array ? { logprobs: answer } : answer;
    // The op's loss is −log p, and so is its slope's.
    const scale = column(given.logprobs.map((g) => -g));
    const dHidden = scope(() => {
      const dLogits = withEntropies(mul(forward.slope, scale), forward, given.entropies);
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

  #forward(batch: TokenBatch, entropy: boolean | 'trained'): Forward {
    const tables = this.#tablesFor(batch.length);
    return scope(() => {
      const { hidden, saved } = decode(this.policy, batch, tables);
      const logits = matMul(hidden, this.policy.weights().head, false, true);
      const [losses, slope] = labelLoss(logits, tf.tensor1d(batch.labels, 'int32'));
      const entropies = entropy === false ? undefined : entropyOf(logits);
      const trained = entropy === 'trained' && entropies !== undefined;
      return { hidden, saved, losses, slope, entropies, entropySlope: trained ? entropySlope(logits, reshape(entropies, [-1, 1])) : undefined };
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

const column = (values: Float32Array): Tensor => tf.tensor2d(values, [values.length, 1]);

/** `dLogits` with the entropies' part. */
function withEntropies(dLogits: Tensor, { entropySlope: slope }: Forward, gradient: Float32Array | undefined): Tensor {
  if (gradient === undefined) return dLogits;
  if (slope === undefined) throw new Error('a gradient by entropies that are not trained');
  return add(dLogits, mul(slope, column(gradient)));
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
