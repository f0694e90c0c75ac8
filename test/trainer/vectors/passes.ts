/** The sampler's passes over one model, without the sampler: rows in, logits out. */

import type { ModelConfig } from '../../../trainer/model/config.ts';
import { gathered, type WeightPieces } from '../../../trainer/model/weights.ts';
import type { Decoder, DecoderKind, PassRow } from '../../../trainer/sampler/pass/decoder.ts';
import { graphDecoderKind } from '../../../trainer/sampler/pass/graph/graph-decoder.ts';
import { SamplerModel } from '../../../trainer/sampler/pass/graph/sampler-model.ts';
import { nativeDecoderKind } from '../../../trainer/sampler/pass/native/native-decoder.ts';

/** The compiled decoder; TensorFlow's graph; the graph that takes the largest score off. */
export const decoderNames = ['native', 'graph', 'graph, shifted'] as const;
export type DecoderName = (typeof decoderNames)[number];

export function decoderKind(name: DecoderName): DecoderKind {
  if (name === 'native') return nativeDecoderKind();
  const alwaysShift = name === 'graph, shifted';
  return {
    ...graphDecoderKind(),
    model: async (config, weights, positions) =>
      new SamplerModel(config, await gathered(weights), { positions, alwaysShift }),
  };
}

export type SlotRow = Omit<PassRow, 'blocks' | 'want'> & { readonly slot: number };

export interface Passes {
  readonly decoder: Decoder;
  /** The blocks of a slot, so that each has room for the longest sequence; never one after the other. */
  blocksOf(slot: number): number[];
  /** Logits of each row's last token, `[vocabulary]` each. */
  of(...rows: readonly SlotRow[]): Float32Array[];
  dispose(): void;
}

export async function passesOf(
  config: ModelConfig,
  weights: WeightPieces,
  name: DecoderName = 'native',
  slots = 8,
  positions = 128,
): Promise<Passes> {
  const kind = decoderKind(name);
  const perSlot = Math.ceil(positions / kind.blockSize);
  const model = await kind.model(config, weights, positions);
  const decoder = kind.decoder(config, positions, slots * perSlot);
  const blocksOf = (slot: number): number[] =>
    Array.from({ length: perSlot }, (_, i) => (perSlot - 1 - i) * slots + slot);
  return {
    decoder,
    blocksOf,
    of: (...rows) =>
      decoder
        .forward(
          model,
          rows.map(({ slot, ...row }) => ({ ...row, blocks: blocksOf(slot), want: 'logits' as const })),
        )
        .map((result) => {
          const [logits] = 'logits' in result ? result.logits : [];
          return logits ?? new Float32Array();
        }),
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
