/**
 * The interface of decoders. A decoder computes passes: new tokens of several sequences, over the blocks of keys and
 * values that earlier passes wrote. A sequence's result has the same bits for any company in the pass, any division of
 * its tokens into parts, and any choice of blocks.
 */

import { tensorflow } from '../../tensorflow.ts';
import { graphDecoderKind } from './graph/graph-decoder.ts';
import { NoNativeDecoder } from './native/native-binding.ts';
import { nativeDecoderKind } from './native/native-decoder.ts';
import type { ContextLayout } from '../cache/cache-budget.ts';
import type { AdapterWeights } from '../../lora/adapter-layout.ts';
import type { ModelConfig } from '../../model/config.ts';
import type { WeightPieces } from '../../model/weights.ts';

/** One sequence's part of a pass: tokens `from` to `from + count - 1` are new, the earlier ones are in its blocks. */
export interface PassRow {
  readonly tokens: readonly number[];
  readonly from: number;
  readonly count: number;
  /** The sequence's blocks in order, at least as many as `from + count` positions need. */
  readonly blocks: readonly number[];
  /**
   * Of the model's adapters, the one that the row has. Rows of one adapter that stand together are computed together.
   */
  readonly adapter?: DecoderAdapter | undefined;
  /** The wanted result: logits of the last new token, or of every one; keys and values only; or a token to be drawn. */
  readonly want: 'logits' | 'every' | 'nothing' | Draw;
}

/** A draw from the last token's plain distribution: no filters, no penalty. */
export interface Draw {
  /** 0 is greedy. */
  readonly temperature: number;
  /** In [0, 1). */
  readonly uniform: number;
  /** Only ids below it can be drawn. */
  readonly limit: number;
}

export interface Drawn {
  readonly token: number;
  /** Of the whole distribution at the temperature (1 where greedy); nats. */
  readonly logprob: number;
}

/** Either the wanted rows of logits `[vocab]`, in order, or the drawn token. */
export type PassResult =
  | { readonly logits: readonly Float32Array[] }
  | { readonly drawn: Drawn }
  /** The logits were not finite. */
  | { readonly drawn: undefined };

/** A policy's weights in a decoder's layout. */
export interface DecoderModel {
  readonly config: ModelConfig;
  dispose(): void;
}

/** An adapter that is not merged: rows with it and rows without it share a pass over one copy of the base's weights. */
export interface DecoderAdapter {
  /** Of its packed matrices. */
  readonly bytes: number;
  dispose(): void;
}

export interface Decoder<Model extends DecoderModel = DecoderModel> {
  /** The results of `rows`, in their order. Logits are valid until the next pass. */
  forward(model: Model, rows: readonly PassRow[]): PassResult[];
  /** Copies a block's contents, in every layer. */
  copyBlock(from: number, to: number): void;
  /** Frees the memory. The decoder cannot be used afterwards. */
  dispose(): void;
}

/** Makes models and decoders that work with each other. */
export interface DecoderKind<Model extends DecoderModel = DecoderModel> extends ContextLayout {
  /** `positions`: the longest context. Errors: `WeightsMismatch`, those of reading the weights. */
  model(config: ModelConfig, weights: WeightPieces, positions: number): Promise<Model>;
  decoder(config: ModelConfig, positions: number, blocks: number): Decoder<Model>;
  /**
   * An adapter for models of this shape. Left out: this kind has none, and adapters are merged into a copy of the base.
   * Errors: `UnsupportedAdapter`, `WrongWeights`.
   */
  adapter?(config: ModelConfig, positions: number, adapter: AdapterWeights): DecoderAdapter;
}

/** TensorFlow's graph if it has a GPU, or if the compiled decoder cannot be loaded; else the compiled decoder. */
export function chooseDecoderKind(): DecoderKind {
  if (tensorflow.gpu) return graphDecoderKind();
  try {
    return nativeDecoderKind();
  } catch (error) {
    if (!(error instanceof NoNativeDecoder)) throw error;
    process.stderr.write(`sampling is slower here: ${error.message}\n`);
    return graphDecoderKind();
  }
}
