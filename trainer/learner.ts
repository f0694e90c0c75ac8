/**
 * A policy being trained: log-probabilities of the tokens that count, and gradients of any function of them. Both, and
 * entropies, are of logits over the temperature that a token was sampled at: of the distribution that it was drawn from.
 */

import { type DecoderSaved, type Remember, decode, decodeGradient } from './model/decoder.ts';
import type { AdapterWeights } from './lora/adapter-layout.ts';
import { AdapterGradients } from './lora/adapter-gradients.ts';
import { Gradients, type GradientSink } from './model/gradients.ts';
import {
  type Tensor,
  addAll,
  div,
  entropyOf,
  entropySlope,
  labelLoss,
  leavingNothing,
  matMul,
  mul,
  reshape,
  scope,
} from './model/layers/kernels.ts';
import { Policy } from './model/policy.ts';
import { GrowingRotaryTables } from './model/layers/rotary.ts';
import { type TokenBatch, longestOf } from './model/token-batch.ts';
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
  /** Over the temperatures. */
  readonly hidden: Tensor;
  /** [positions, 1]; `undefined` where all are 1. */
  readonly temperatures: Tensor | undefined;
  readonly saved: DecoderSaved;
  readonly losses: Tensor;
  /** softmax − onehot. */
  readonly slope: Tensor;
  readonly entropies: Tensor | undefined;
}

export class Learner {
  readonly policy: Policy;
  readonly gradients: GradientSink;
  /** Whether each layer's forward pass runs again in the backward pass, to the same bits with less memory. */
  gradientCheckpointing = false;
  readonly #tables: GrowingRotaryTables;

  /** With an adapter, it alone is trained. Errors: `WrongWeights`, `UnsupportedAdapter`. */
  constructor(config: ModelConfig, weights: Weights, adapterWeights?: AdapterWeights) {
    this.policy = new Policy(config, weights, adapterWeights);
    this.#tables = new GrowingRotaryTables(this.policy.config);
    const { adapter } = this.policy;
    this.gradients = adapter === undefined ? new Gradients() : new AdapterGradients(this.policy, adapter);
  }

  /** Forward alone. */
  forward(batch: TokenBatch, withEntropy: boolean): TokenStatistics {
    return leavingNothing(() => read(this.#forward(batch, withEntropy, 'none')));
  }

  /**
   * Forward, then backward for the gradient that `respond` gives: by the log-probability of each token that counts (an
   * array alone), and by entropies where these are `trained`. Adds to `gradients`, which are cleared where it fails.
   */
  forwardBackward(
    batch: TokenBatch,
    entropy: boolean | 'trained',
    respond: (statistics: TokenStatistics) => Float32Array | TokenGradient,
  ): void {
    try {
      leavingNothing(() => {
        const forward = this.#forward(batch, entropy, this.gradientCheckpointing ? 'inputs' : 'all');
        const answer = respond(read(forward));
        const dHidden = this.#headBackward(forward, answer instanceof Float32Array ? { logprobs: answer } : answer);
        tf.dispose([
          forward.losses,
          forward.slope,
          ...[forward.entropies, forward.entropySlope].filter((x) => x !== undefined),
        ]);
        decodeGradient(this.policy, dHidden, forward.saved, this.gradients);
      });
    } catch (error) {
      this.gradients.clear();
      throw error;
    }
  }

  dispose(): void {
    this.gradients.clear();
    this.policy.dispose();
    this.#tables.dispose();
  }

  #forward(batch: TokenBatch, entropy: boolean | 'trained', remember: Remember): Forward {
    const tables = this.#tables.for(longestOf(batch));
    return scope(() => {
      const { hidden: plain, saved } = decode(this.policy, batch, tables, remember);
      const temperatures = batch.temperatures && column(batch.temperatures);
      // Not the logits themselves: these are as wide as the vocabulary.
      const hidden = temperatures === undefined ? plain : div(plain, temperatures);
      const logits = matMul(hidden, this.policy.weights().head, false, true);
      const [losses, slope] = labelLoss(logits, tf.tensor1d(batch.labels, 'int32'));
      const entropies = entropy === false ? undefined : entropyOf(logits);
      const trained = entropy === 'trained' && entropies !== undefined;
      return {
        hidden,
        temperatures,
        saved,
        losses,
        slope,
        entropies,
        entropySlope: trained ? entropySlope(logits, reshape(entropies, [-1, 1])) : undefined,
      };
    });
  }

  /** Adds the head's gradient; returns dHidden [positions, hidden]. */
  #headBackward(forward: Forward, given: TokenGradient): Tensor {
    return scope(() => {
      const { head } = this.policy.weights();
      const wanted = this.gradients.wants('head');
      // The op's loss is −log p, and so is its slope's.
      const parts = [
        { slope: forward.slope, scale: column(given.logprobs.map((g) => -g)) },
        ...entropyPart(forward, given.entropies),
      ];
      // Rows are scaled where they are as wide as the hidden states, not as the vocabulary.
      const dHeads = wanted ? parts.map(({ slope, scale }) => matMul(slope, mul(forward.hidden, scale), true)) : [];
      for (const dHead of dHeads) this.gradients.keep(this.gradients.plus('head', dHead));
      const dHidden = addAll(parts.map(({ slope, scale }) => mul(matMul(slope, head), scale)));
      return forward.temperatures === undefined ? dHidden : div(dHidden, forward.temperatures);
    });
  }
}

const column = (values: Float32Array): Tensor => tf.tensor2d(values, [values.length, 1]);

/** The entropies' part of the logits' gradient. */
function entropyPart(
  { entropySlope: slope }: Forward,
  gradient: Float32Array | undefined,
): Array<{ slope: Tensor; scale: Tensor }> {
  if (gradient === undefined) return [];
  if (slope === undefined) throw new Error('a gradient by entropies that are not trained');
  return [{ slope, scale: column(gradient) }];
}

function read({ losses, entropies }: Forward): TokenStatistics {
  return {
    logprobs: (losses.dataSync() as Float32Array).map((loss) => -loss),
    entropies: entropies?.dataSync() as Float32Array | undefined,
  };
}
