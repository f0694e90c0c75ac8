/** A tokenizer that is learned from texts, as Hugging Face files: byte-level BPE, always with the same bytes. */

import { type BpeModel, trainBpe } from './train-bpe.ts';

/** What a tokenizer has beside its merges. */
export interface TokenizerForm {
  /**
   * The words within which merges stay, as a regular expression that means the same in JavaScript, Rust and Python.
   */
  readonly pattern: string;
  /** Words that are one token each. */
  readonly atoms: readonly string[];
  /** Tokens that no text of a message is meant to have. */
  readonly special: readonly string[];
  /** Further tokens. */
  readonly added: readonly string[];
  /** The special tokens that end a message, and that fill up rows. */
  readonly end: string;
  readonly padding: string;
  readonly chatTemplate: string;
}

function escape(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
}

/** Returns the words of a text: the added tokens are left out, since no merge may be in them. */
export function wordSplitter({ pattern, special, added }: TokenizerForm): (text: string) => string[] {
  // Longest first, as tokenizers match added tokens.
  const tokens = [...special, ...added].sort((a, b) => b.length - a.length).map(escape);
  const separators = new RegExp(tokens.join('|'));
  const words = new RegExp(`(${pattern})`, 'u');
  return (text) => text.split(separators).flatMap((part) => part.split(words).filter((word) => word !== ''));
}

export interface TokenizerFiles {
  readonly 'tokenizer.json': string;
  readonly 'tokenizer_config.json': string;
  /** Number of used ids: the model's and the added ones. */
  readonly size: number;
}

/** Number of ids that are no merges. */
export const leastSize = ({ special, added }: TokenizerForm): number => 256 + special.length + added.length;

/** `texts`: rendered conversations. `size`: the most ids. `maxLength`: the longest context, in tokens. */
export function makeTokenizerFiles(
  form: TokenizerForm,
  texts: Iterable<string>,
  size: number,
  maxLength: number,
): TokenizerFiles {
  const more = form.special.length + form.added.length;
  const model = trainBpe({
    atoms: form.atoms,
    texts,
    split: wordSplitter(form),
    vocabularySize: size - more,
    minimumCount: 2,
  });
  return {
    'tokenizer.json': `${JSON.stringify(tokenizerJson(form, model), null, 1)}\n`,
    'tokenizer_config.json': `${JSON.stringify(tokenizerConfig(form, maxLength), null, 1)}\n`,
    size: model.vocabulary.size + more,
  };
}

function addedTokens({ special, added }: TokenizerForm, model: BpeModel): object[] {
  return [...special, ...added].map((content, i) => ({
    id: model.vocabulary.size + i,
    content,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: i < special.length,
  }));
}

function tokenizerJson(form: TokenizerForm, model: BpeModel): object {
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false };
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: addedTokens(form, model),
    normalizer: null,
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [
        { type: 'Split', pattern: { Regex: form.pattern }, behavior: 'Isolated', invert: false },
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

function tokenizerConfig({ end, padding, chatTemplate }: TokenizerForm, maxLength: number): object {
  return {
    tokenizer_class: 'PreTrainedTokenizerFast',
    eos_token: end,
    pad_token: padding,
    model_max_length: maxLength,
    clean_up_tokenization_spaces: false,
    chat_template: chatTemplate,
  };
}
