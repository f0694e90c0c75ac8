/** A policy that is made anew: its shape, and a tokenizer that is there or is learned from the training data. */

import { copyFile, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { ChatTemplate } from '../../trainer/tokenizer/chat-template.ts';
import { loadTokenizer, type Tokenizer } from '../../trainer/tokenizer/load-tokenizer.ts';
import { type ModelConfig, parseModelConfig } from '../../trainer/model/config.ts';
import { makeTokenizer } from '../generators.ts';
import { CHAT_FORM } from '../tokenizer/chat-form.ts';
import { compactForm } from '../tokenizer/compact-form.ts';
import { leastSize, makeTokenizerFiles, type TokenizerFiles } from '../tokenizer/tokenizer-files.ts';
import { textsOf } from './record-source.ts';
import type { SftConfig } from './sft-config.ts';

export interface NewPolicy {
  readonly config: ModelConfig;
  readonly tokenizer: Tokenizer;
}

type Shape = NonNullable<SftConfig['model']>;

/** Ids are rounded up, so that the engine's rows are aligned. */
const aligned = (size: number): number => Math.ceil(size / 16) * 16;

function modelConfig(model: Shape, vocabulary: number, end: number): ModelConfig {
  return parseModelConfig({
    architectures: ['Qwen3ForCausalLM'],
    model_type: 'qwen3',
    hidden_size: model.hidden,
    num_hidden_layers: model.layers,
    num_attention_heads: model.heads,
    num_key_value_heads: model.kvHeads,
    head_dim: model.headDim,
    intermediate_size: model.intermediate,
    vocab_size: vocabulary,
    max_position_embeddings: model.maxPositions,
    rms_norm_eps: 1e-6,
    rope_theta: model.ropeTheta,
    tie_word_embeddings: true,
    attention_bias: false,
    hidden_act: 'silu',
    initializer_range: model.initializerRange,
    eos_token_id: end,
    torch_dtype: 'float32',
  });
}

/** The texts of the data's records. Errors: `UserInputError` if there are none. */
async function allTexts(config: SftConfig, chatTemplate: string, most: number): Promise<string[]> {
  const template = new ChatTemplate(chatTemplate, {});
  const texts: string[] = [];
  for (const [name, settings] of Object.entries(config.data)) {
    const { files } = settings;
    if (files !== undefined)
      texts.push(...(await textsOf(name, { ...settings, files }, template, most - texts.length)));
  }
  if (texts.length > 0) return texts;
  throw new UserInputError(
    'tokenizer',
    config.tokenizer,
    'give `from`, a folder with a tokenizer: no data has records',
  );
}

async function learned(config: SftConfig, maxLength: number): Promise<TokenizerFiles> {
  const { generate, compact, size = 4096, texts = 20_000 } = config.tokenizer ?? {};
  if (generate !== undefined) return makeTokenizer(generate, { size, texts, maxLength });
  const form = compact === undefined ? CHAT_FORM : compactForm(compact);
  const least = leastSize(form);
  if (size < least) throw new UserInputError('tokenizer.size', size, `give at least ${least}: the bytes and the roles`);
  return makeTokenizerFiles(form, await allTexts(config, form.chatTemplate, texts), size, maxLength);
}

/** The tokenizer's own files: not the configuration of the model beside it. */
const OF_A_TOKENIZER =
  /^(tokenizer.*|chat_template.*|special_tokens_map\.json|added_tokens\.json|vocab\.json|merges\.txt)$/u;

/** Writes the new policy's tokenizer into `dir`. Errors: `UserInputError`, `UnusableTokenizer`, `BadRecord`. */
export async function makeNewPolicy(config: SftConfig, model: Shape, dir: string): Promise<NewPolicy> {
  const from = config.tokenizer?.from;
  if (from === undefined) {
    const files = await learned(config, model.maxPositions);
    for (const name of ['tokenizer.json', 'tokenizer_config.json'] as const)
      await writeFile(join(dir, name), files[name]);
  } else {
    for (const name of await readdir(from))
      if (OF_A_TOKENIZER.test(name)) await copyFile(join(from, name), join(dir, name));
  }
  const tokenizer = await loadTokenizer(dir);
  const [end = 0] = tokenizer.stopTokenIds;
  return { config: modelConfig(model, aligned(tokenizer.size), end), tokenizer };
}
