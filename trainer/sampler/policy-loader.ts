/** Reads a policy directory in Hugging Face's layout for the sampler. */

import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { AdapterName } from '../generate-request.ts';
import type { AdapterWeights } from '../lora/adapter-layout.ts';
import { mergedWeights } from '../lora/merged-weights.ts';
import type { ModelConfig } from '../model/config.ts';
import type { WeightPieces } from '../model/weights.ts';
import { lazyDecoder } from '../tokenizer/lazy-decoder.ts';
import { readVerifiedAdapter, readVerifiedConfig } from '../checkpoints/verified-checkpoint.ts';

export interface LoadedPolicy {
  readonly config: ModelConfig;
  /** Read, and checked against the checkpoint's record, when they are iterated. */
  readonly weights: WeightPieces;
  /** Ids from here on have no token and are never sampled. */
  readonly vocabulary: number;
  /** Left out if the policy has no tokenizer. */
  readonly decode?: (ids: readonly number[]) => string;
}

interface TokenizerJson {
  /** A Unigram model has a list, in which an entry's index is its id. */
  readonly model?: { readonly vocab?: Readonly<Record<string, number>> | readonly unknown[] };
  readonly added_tokens?: ReadonlyArray<{ readonly id: number }>;
}

/** One more than the greatest id of `tokenizer.json`; a model without a tokenizer may sample all of its vocabulary. */
async function readVocabulary(dir: string, modelVocabulary: number): Promise<number> {
  let text: string;
  try {
    text = await readFile(path.join(dir, 'tokenizer.json'), 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return modelVocabulary;
    throw error;
  }
  const json = JSON.parse(text) as TokenizerJson;
  const { vocab = {} } = json.model ?? {};
  const ids = [
    ...(Array.isArray(vocab) ? vocab.keys() : Object.values(vocab as Readonly<Record<string, number>>)),
    ...(json.added_tokens ?? []).map(({ id }) => id),
  ];
  const size = ids.reduce((most, id) => Math.max(most, id + 1), 0);
  return size === 0 ? modelVocabulary : Math.min(size, modelVocabulary);
}

/**
 * Loads a policy; an adapter is added to its base's weights. Errors, some of them only when the weights are read:
 * `UnsupportedModel`, `UnsupportedAdapter`, `BadSafetensors`, `CheckpointTorn`, the file system's own.
 */
export async function loadPolicy(dir: string): Promise<LoadedPolicy> {
  const config = await readVerifiedConfig(dir);
  const [weights, vocabulary] = [await mergedWeights(dir, config), await readVocabulary(dir, config.vocabSize)];
  return {
    config,
    weights,
    vocabulary,
    ...(existsSync(path.join(dir, 'tokenizer.json')) ? { decode: lazyDecoder(dir) } : {}),
  };
}

/** Reads an adapter for the weights in the directory `base`. Errors: those of `readVerifiedAdapter`. */
export const loadAdapter = ({ dir, digest }: AdapterName, base: string): Promise<AdapterWeights> =>
  readVerifiedAdapter(dir, base, digest);
