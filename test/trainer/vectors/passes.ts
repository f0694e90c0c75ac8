/** The sampler's pass over one model, without the sampler: rows in, logits out. */

import type { ModelConfig } from '../../../trainer/model/config.ts';
import type { Weights } from '../../../trainer/model/weights.ts';
import { type BatchRow, planBatch } from '../../../trainer/sampler/pass/batch-plan.ts';
import { DecoderSession } from '../../../trainer/sampler/pass/decoder-session.ts';
import { SamplerModel } from '../../../trainer/sampler/pass/sampler-model.ts';

export interface Passes {
  /** Logits of each row's last token, `[vocabulary]` each. */
  of(...rows: readonly BatchRow[]): Float32Array[];
  dispose(): void;
}

export function passesOf(config: ModelConfig, weights: Weights, alwaysShift = false): Passes {
  const layout = { slots: 8, pagesPerSlot: 1, kvHeads: config.kvHeads, group: config.heads / config.kvHeads };
  const model = new SamplerModel(config, weights, { positions: 128, alwaysShift });
  const decoder = new DecoderSession(config, 128, layout);
  return {
    of: (...rows) => {
      const logits = decoder.forward(model, planBatch(layout, rows));
      return rows.map((_, i) => logits.subarray(i * config.vocabSize, (i + 1) * config.vocabSize));
    },
    dispose: () => {
      decoder.dispose();
      model.dispose();
    },
  };
}

/** Logits of every position, decoded one token after the other: `[length · vocabulary]`. */
export function decodeAll(passes: Passes, tokens: readonly number[]): Float32Array[] {
  return tokens.map((_, from) => passes.of({ slot: 0, tokens, from, count: 1 })[0]?.slice() ?? new Float32Array());
}

export const prefill = (passes: Passes, tokens: readonly number[]): Float32Array =>
  passes.of({ slot: 1, tokens, from: 0, count: tokens.length })[0] ?? new Float32Array();
