/**
 * What computes passes: new tokens of several sequences in, over blocks of keys and values that earlier passes left. A
 * sequence's result has the same bits whatever else is in the pass, however its tokens are cut into parts, and in
 * whichever blocks they lie.
 */

import { tensorflow } from '../../tensorflow.ts';
import { graphDecoderKind } from './graph/graph-decoder.ts';
import { NoNativeDecoder } from './native/native-binding.ts';
import { nativeDecoderKind } from './native/native-decoder.ts';
import type { ModelConfig } from '../../model/config.ts';
import type { WeightPieces } from '../../model/weights.ts';

/** One sequence's part of a pass: tokens `from` to `from + count - 1` are new, those before them are in its blocks. */
export interface PassRow {
  readonly tokens: readonly number[];
  readonly from: number;
  readonly count: number;
  /** The sequence's blocks in order, at least as many as `from + count` positions need. */
  readonly blocks: readonly number[];
  /** What is wanted: the logits of the last new token, those of every one, a token drawn by the last one's, or no more than keys and values. */
  readonly want: 'logits' | 'every' | 'nothing' | Draw;
}

/** A draw from the plain distribution: no filters, no penalty. */
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

/** One of the two: each row of logits `[vocab]` that was wanted, in order, or what was drawn. */
export type PassResult =
  | { readonly logits: readonly Float32Array[] }
  | { readonly drawn: Drawn }
  /** The logits were not finite. */
  | { readonly drawn: undefined };

/** A policy's weights as a decoder multiplies with them. */
export interface DecoderModel {
  readonly config: ModelConfig;
  dispose(): void;
}

export interface Decoder<Model extends DecoderModel = DecoderModel> {
  /** The results of `rows`, in their order. Logits are valid until the next pass. */
  forward(model: Model, rows: readonly PassRow[]): PassResult[];
  /** Copies what a block holds, in every layer. */
  copyBlock(from: number, to: number): void;
  /** Gives the memory back; the decoder is of no use afterwards. */
  dispose(): void;
}

/** Makes models and decoders that fit one another. */
export interface DecoderKind<Model extends DecoderModel = DecoderModel> {
  /** Positions of a block. */
  readonly blockSize: number;
  /** `positions`: the longest context. Errors: `WeightsMismatch`, those of reading the weights. */
  model(config: ModelConfig, weights: WeightPieces, positions: number): Promise<Model>;
  decoder(config: ModelConfig, positions: number, blocks: number): Decoder<Model>;
}

/** TensorFlow's graph where it has a GPU, or where the compiled decoder does not run; the compiled decoder elsewhere. */
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
