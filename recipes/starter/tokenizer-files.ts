/** The starter policy's tokenizer as Hugging Face files, made from demonstrations, always with the same bytes. */

import { CALL_TOKENS, CHAT_TEMPLATE, END, PADDING, ROLES, roleToken } from './chat-template.ts';
import { type BpeModel, trainBpe } from './train-bpe.ts';

/**
 * The words within which merges stay. Identifiers never include a space, so a name has the same tokens in prose, code
 * and paths. Each digit is a word. A keyword includes the space after it, a word of prose the space before it. The
 * pattern means the same in JavaScript, Rust and Python.
 */
export const WORD_PATTERN = String.raw`(?:def|return|if) |\.py|\p{N}| ?[A-Za-z]+| ?\x60| ?[^\sA-Za-z0-9\x60.:"]+ ?|[.:"]+|\s+`;

/** The matches of `WORD_PATTERN`, and the text between them. */
export function splitWords(text: string): string[] {
  return text.split(new RegExp(`(${WORD_PATTERN})`, 'u')).filter((word) => word !== '');
}

const SPECIAL = [PADDING, END, ...ROLES.map(roleToken)];
const ADDED = [...SPECIAL, ...CALL_TOKENS];

function escape(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
}

/** Longest first, as tokenizers match added tokens. */
const ADDED_PATTERN = new RegExp(
  [...ADDED]
    .sort((a, b) => b.length - a.length)
    .map(escape)
    .join('|'),
);

export interface TokenizerFiles {
  readonly 'tokenizer.json': string;
  readonly 'tokenizer_config.json': string;
  /** Number of used ids: the model's and the added ones. */
  readonly size: number;
}

/** `atoms`: words that are one token each. `texts`: rendered conversations. `size`: the most ids. */
export function makeTokenizerFiles(
  atoms: readonly string[],
  texts: Iterable<string>,
  size: number,
  maxLength: number,
): TokenizerFiles {
  const split = (text: string): string[] => text.split(ADDED_PATTERN).flatMap(splitWords);
  const model = trainBpe({ atoms, texts, split, vocabularySize: size - ADDED.length, minimumCount: 2 });
  return {
    'tokenizer.json': `${JSON.stringify(tokenizerJson(model), null, 1)}\n`,
    'tokenizer_config.json': `${JSON.stringify(tokenizerConfig(maxLength), null, 1)}\n`,
    size: model.vocabulary.size + ADDED.length,
  };
}

function addedTokens(model: BpeModel): object[] {
  return ADDED.map((content, i) => ({
    id: model.vocabulary.size + i,
    content,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: i < SPECIAL.length,
  }));
}

function tokenizerJson(model: BpeModel): object {
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false };
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: addedTokens(model),
    normalizer: null,
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [
        { type: 'Split', pattern: { Regex: WORD_PATTERN }, behavior: 'Isolated', invert: false },
        byteLevel,
      ],
    },
    post_processor: null,
    decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab: Object.fromEntries(model.vocabulary),
      merges: model.merges.map(([left, right]) => [left, right]),
    },
  };
}

function tokenizerConfig(maxLength: number): object {
  return {
    tokenizer_class: 'PreTrainedTokenizerFast',
    eos_token: END,
    pad_token: PADDING,
    model_max_length: maxLength,
    clean_up_tokenization_spaces: false,
    chat_template: CHAT_TEMPLATE,
  };
}
