/**
 * One batch through the base with an adapter beside it, and back. The head is computed in chunks, so that memory does
 * not grow with tokens times vocabulary.
 */

import type { TenantBase } from './tenant-base.ts';
import type { LowRankAdapter, LowRankGradients } from './low-rank-adapter.ts';
import type { PassBatch } from './pass-batches.ts';
import { type Decoded, type Remember, decode, decodeGradient } from '../model/decoder.ts';
import type { ModelConfig } from '../model/config.ts';
import { productSums, type Sum } from '../model/gradients.ts';
import {
  type Tensor,
  concat,
  inGraph,
  labelLoss,
  leavingNothing,
  matMul,
  mul,
  plus,
  slice,
} from '../model/layers/kernels.ts';
import { longestOf } from '../model/token-batch.ts';
import { tf } from '../tensorflow.ts';

/** Bounds of a pass's memory. They change its rounding alone. */
export interface PassMemory {
  /** Tokens of a batch; see `passBatches`. */
  readonly batchTokens: number;
  /** Floats of the logits that are in memory at once. */
  readonly headFloats: number;
  /** Floats of a forward pass that may be kept for the backward pass. Beyond, layers are computed again. */
  readonly keptFloats: number;
}

/** 256 MiB of logits, 1 GiB of layers. */
export const PASS_MEMORY: PassMemory = { batchTokens: 2048, headFloats: 2 ** 26, keptFloats: 2 ** 28 };

interface HeadChunk {
  readonly hidden: Tensor;
  readonly labels: Tensor;
}

/** An upper bound of what each layer keeps of a batch. */
function keptFloats(config: ModelConfig, batch: PassBatch): number {
  const { hiddenSize, intermediateSize, heads, kvHeads, headDim, layers } = config;
  const projected = (heads + 2 * kvHeads) * headDim;
  const perToken = 3 * hiddenSize + 7 * projected + 4 * intermediateSize + heads * longestOf(batch);
  const padded = (batch.blocks ?? []).reduce((sum, block) => sum + block.batch * block.length, 0);
  return layers * padded * perToken;
}

function chunksOf(hidden: Tensor, { targets }: PassBatch, most: number): HeadChunk[] {
  const rows = Math.max(1, most);
  return Array.from({ length: Math.ceil(targets.length / rows) }, (_, i) => {
    const labels = targets.slice(i * rows, (i + 1) * rows);
    return {
      hidden: labels.length === targets.length ? hidden : slice(hidden, [i * rows, 0], [labels.length, -1]),
      labels: tf.tensor1d(labels, 'int32'),
    };
  });
}

/** [−log p of each label, and its slope by the logits: softmax − onehot]. */
function headLoss(model: Decoded, { hidden, labels }: HeadChunk): [Tensor, Tensor] {
  const { head } = model.weights();
  return labelLoss(plus(matMul(hidden, head, false, true), model.lowRank?.forward('head', hidden)), labels);
}

/** A chunk's slope by its hidden states. `slope`: that of the logits, if it was kept. */
function headBackward(
  model: Decoded,
  chunk: HeadChunk,
  slope: Tensor | undefined,
  dLosses: Float32Array,
  into: LowRankGradients,
): Tensor {
  const factor = tf.tensor2d(dLosses, [dLosses.length, 1]);
  const { dHidden, sums } = inGraph((): { dHidden: Tensor; sums: readonly Sum[] } => {
    const dLogits = mul(slope ?? headLoss(model, chunk)[1], factor);
    return {
      dHidden: plus(matMul(dLogits, model.weights().head), model.lowRank?.backward('head', dLogits)),
      sums: productSums(into, 'head', dLogits, chunk.hidden),
    };
  });
  into.keep(sums);
  return dHidden;
}

/** What becomes of the log-probabilities; see `adapterPass`. */
export interface Backward {
  readonly into: LowRankGradients;
  /** dL/d log p of each target, from their log-probabilities. */
  readonly respond: (logprobs: Float32Array) => Float32Array;
}

/**
 * Log-probabilities of the batch's targets. With `backward`, adds the gradient to its sums; if it throws, the caller
 * clears them.
 */
export function adapterPass(
  base: TenantBase,
  adapter: LowRankAdapter,
  batch: PassBatch,
  backward: Backward | undefined,
  memory: PassMemory,
): Float32Array {
  const { policy } = base;
  adapter.prepare();
  const model: Decoded = { config: policy.config, weights: () => policy.weights(), lowRank: adapter };
  // Made here, since it must outlive the pass.
  model.weights();
  const tables = base.tables.for(longestOf(batch));
  const kept: Remember = keptFloats(policy.config, batch) <= memory.keptFloats ? 'all' : 'inputs';
  return leavingNothing(() => {
    const { hidden, saved } = decode(model, batch, tables, backward === undefined ? 'none' : kept);
    const chunks = chunksOf(hidden, batch, Math.floor(memory.headFloats / policy.config.vocabSize));
    const isKept = backward !== undefined && chunks.length === 1;
    const logprobs = new Float32Array(batch.targets.length);
    let slope: Tensor | undefined;
    let at = 0;
    for (const chunk of chunks) {
      const [losses, own] = inGraph((): Tensor[] => headLoss(model, chunk).slice(0, isKept ? 2 : 1));
      if (losses === undefined) throw new Error('the head gave no losses');
      const values = losses.dataSync() as Float32Array;
      logprobs.set(
        values.map((loss) => -loss),
        at,
      );
      at += values.length;
      losses.dispose();
      slope = own;
    }
    if (backward === undefined) return logprobs;
    const slopes = backward.respond(logprobs);
    at = 0;
    const parts = chunks.map((chunk) => {
      const own = slopes.subarray(at, (at += chunk.labels.shape[0] ?? 0));
      return headBackward(
        model,
        chunk,
        slope,
        own.map((g) => -g),
        backward.into,
      );
    });
    slope?.dispose();
    decodeGradient(model, concat(parts, 0), saved, backward.into);
    return logprobs;
  });
}
