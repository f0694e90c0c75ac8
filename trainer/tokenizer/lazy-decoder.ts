/** Decodes token ids to text, special tokens included. The first call reads the tokenizer. */

import { readFileSync } from 'node:fs';
import path from 'node:path';
import { Tokenizer as TokenizerCore } from '@huggingface/tokenizers';

/**
 * Keeps spaces before punctuation, because `cd ..` is another command than `cd..`. Llama 3's configuration and the
 * library's default would remove them.
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
