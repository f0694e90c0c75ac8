/** Text of token ids, special tokens included; the tokenizer is read when it is first asked. */

import { readFileSync } from 'node:fs';
import path from 'node:path';
import { Tokenizer as TokenizerCore } from '@huggingface/tokenizers';

/**
 * Spaces before punctuation stay where the tokens have them, whatever the tokenizer's configuration says (Llama 3's, and the
 * library where it says nothing, would take them away): `cd ..` is another command than `cd..`.
 */
export const EXACT = { clean_up_tokenization_spaces: false } as const;

const readJson = (file: string): object => JSON.parse(readFileSync(file, 'utf8')) as object;

function configOf(dir: string): object {
  try {
    return readJson(path.join(dir, 'tokenizer_config.json'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw error;
  }
}

type Decode = (ids: readonly number[]) => string;

function makeDecoder(dir: string): Decode {
  const core = new TokenizerCore(readJson(path.join(dir, 'tokenizer.json')), configOf(dir));
  return (ids) => (ids.length === 0 ? '' : core.decode([...ids], { skip_special_tokens: false, ...EXACT }));
}

export function lazyDecoder(dir: string): Decode {
  let decode: Decode | undefined;
  return (ids) => {
    decode ??= makeDecoder(dir);
    return decode(ids);
  };
}
