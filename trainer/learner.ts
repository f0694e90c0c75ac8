/**
 * A policy in training: log-probabilities of the tokens that count, and gradients of any function of them.
 * Log-probabilities, gradients and entropies use logits divided by the temperature that a token was sampled at: the
 * distribution that it was drawn from.
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
  isLargest,
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
import type { TokenStatistics } from './passes.ts';
import { tf } from './tensorflow.ts';

/** dL/d logprob and dL/d entropy of each token that counts. */
export interface TokenGradient {
  readonly logprobs: Float32Array;
  /** By the entropy of the distribution that the token was drawn from; absent: 0. */
  readonly entropies?: Float32Array;
}

interface Forward {
  /** d entropy / d logits; `undefined` if entropies are not trained. */
  readonly entropySlope: Tensor | undefined;
  /** Hidden states divided by the temperatures. */
  readonly hidden: Tensor;
  /** [positions, 1]; `undefined` if all are 1. */
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
  /** True to repeat each layer's forward pass in the backward pass: the same bits with less memory. */
  gradientCheckpointing = false;
  readonly #tables: GrowingRotaryTables;

  /** With an adapter, only the adapter is trained. Errors: `WrongWeights`, `UnsupportedAdapter`. */
  constructor(config: ModelConfig, weights: Weights, adapterWeights?: AdapterWeights) {
    this.policy = new Policy(config, weights, adapterWeights);
    this.#tables = new GrowingRotaryTables(this.policy.config);
    const { adapter } = this.policy;
    this.gradients = adapter === undefined ? new Gradients() : new AdapterGradients(this.policy, adapter);
  }

  /** Forward pass only. */
  forward(batch: TokenBatch, withEntropy: boolean): TokenStatistics {
    return leavingNothing(() => read(this.#forward(batch, withEntropy, 'none')));
  }

  /** Forward pass of an evaluation. `right`: 1 where the label is the most likely token. */
  evaluate(batch: TokenBatch): { readonly logprobs: Float32Array; readonly right: Uint8Array } {
    return leavingNothing(() => {
      const { hidden, losses, entropies } = this.#forward(batch, false, 'none');
      const logits = matMul(hidden, this.policy.weights().head, false, true);
      const right = isLargest(logits, tf.tensor1d(batch.labels, 'int32'));
      return { logprobs: read({ losses, entropies }).logprobs, right: right.dataSync() as Uint8Array };
    });
  }

  /**
   * Forward, then backward with the gradient that `respond` returns: by the log-probability of each token that counts
   * (as a plain array), and by entropies if `entropy` is `trained`. Adds to `gradients`, which are cleared if it fails.
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
      // Divides the hidden states, since the logits are as wide as the vocabulary.
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
      // The op's loss is −log p, so its slope has the opposite sign.
      const parts = [
        { slope: forward.slope, scale: column(given.logprobs.map((g) => -g)) },
        ...entropyPart(forward, given.entropies),
      ];
      // Scales the hidden states, which are narrower than the vocabulary.
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
  if (slope === undefined) throw new Error('a gradient by entropies was given, but entropies are not trained');
  return [{ slope, scale: column(gradient) }];
}

function read({ losses, entropies }: Pick<Forward, 'losses' | 'entropies'>): TokenStatistics {
  return {
    logprobs: (losses.dataSync() as Float32Array).map((loss) => -loss),
    entropies: entropies?.dataSync() as Float32Array | undefined,
  };
}
