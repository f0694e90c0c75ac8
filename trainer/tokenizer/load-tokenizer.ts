/** A policy's tokenizer and chat template, read from its directory. By default, encoding adds no special token. */

import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { Tokenizer as TokenizerCore } from '@huggingface/tokenizers';
import type { Message, ToolSchema } from '../../protocol/message.ts';
import { type TextSpan, assistantMask } from './assistant-mask.ts';
import { ChatTemplate, templateMessage, templateTool } from './chat-template.ts';
import { EXACT } from './lazy-decoder.ts';
import { tokenBytes } from './token-bytes.ts';

/** The directory lacks something that a chat policy needs. */
export class UnusableTokenizer extends Error {
  override readonly name = 'UnusableTokenizer';
  readonly dir: string;
  constructor(dir: string, problem: string) {
    super(`${dir}: ${problem}`);
    this.dir = dir;
  }
}

export interface Tokenizer {
  /** Special tokens in the text are recognised; `addSpecialTokens` lets the tokenizer's own post-processor add some. */
  encode(text: string, options?: { readonly addSpecialTokens?: boolean }): number[];
  /** The tokens' text, with all of its spaces. Bytes that are not UTF-8 become U+FFFD. */
  decode(ids: readonly number[], options?: { readonly skipSpecialTokens?: boolean }): string;
  /** The token's bytes: those of the tokens of a text are together its UTF-8. Empty if the id has no token. */
  bytesOf(id: number): readonly number[];
  /** Errors: `ChatTemplateRefused`. */
  renderChat(
    messages: readonly Message[],
    tools: readonly ToolSchema[],
    options: { readonly addGenerationPrompt: boolean },
  ): string;
  /** 1 for each of `ids` (from `encode(text)`) that overlaps a span of `text`. Errors: `NoAssistantMask`. */
  maskSpans(text: string, spans: readonly TextSpan[], ids: readonly number[]): number[];
  /** The source of the chat template. */
  readonly chatTemplate: string;
  readonly template: ChatTemplate;
  /** Text of the token that ends an assistant turn. */
  readonly endOfTurn: string;
  /** Ids that end sampling: the tokenizer's end token, and those of `generation_config.json` and `config.json`. */
  readonly stopTokenIds: readonly number[];
  readonly padTokenId: number | undefined;
  tokenId(token: string): number | undefined;
  /** Number of vocabulary entries, added tokens included. */
  readonly size: number;
  /** The highest id of an entry. */
  readonly lastToken: number;
  /** Bytes of the longest entry: no token of a byte-level tokenizer stands for more bytes. */
  readonly longestToken: number;
}

type Json = Readonly<Record<string, unknown>>;

async function readText(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

async function readJson(dir: string, name: string): Promise<Json | undefined> {
  const text = await readText(path.join(dir, name));
  return text === undefined ? undefined : (JSON.parse(text) as Json);
}

/** `chat_template.jinja`, else `chat_template` of the configuration: a text, or a list of named ones. */
async function templateSource(dir: string, config: Json): Promise<string> {
  const file = await readText(path.join(dir, 'chat_template.jinja'));
  if (file !== undefined) return file;
  const inline = config['chat_template'];
  if (typeof inline === 'string') return inline;
  if (Array.isArray(inline)) {
    const named = (inline as Json[]).find((entry) => entry['name'] === 'default')?.['template'];
    if (typeof named === 'string') return named;
  }
  throw new UnusableTokenizer(dir, 'no chat template (chat_template.jinja, or chat_template in tokenizer_config.json)');
}

/** `bos_token` and the like are texts, or objects with `content`. */
function specialTokens(config: Json): Record<string, string> {
  const tokens: Record<string, string> = {};
  for (const [key, value] of Object.entries(config)) {
    if (!key.endsWith('_token')) continue;
    const content = typeof value === 'object' && value !== null ? (value as Json)['content'] : value;
    if (typeof content === 'string') tokens[key] = content;
  }
  return tokens;
}

async function configuredStops(dir: string): Promise<number[]> {
  const files = await Promise.all(['generation_config.json', 'config.json'].map((name) => readJson(dir, name)));
  return files.flatMap((file) => file?.['eos_token_id'] ?? []).filter((id): id is number => typeof id === 'number');
}

/**
 * Ids that end sampling, as `stopTokenIds` of the tokenizer, also of a policy that cannot chat: without a template, or
 * without a tokenizer. Empty if nothing names one.
 */
export async function readStopTokens(dir: string): Promise<number[]> {
  const [definition, config] = await Promise.all([
    readJson(dir, 'tokenizer.json'),
    readJson(dir, 'tokenizer_config.json'),
  ]);
  const end = specialTokens(config ?? {})['eos_token'];
  const added = (definition?.['added_tokens'] ?? []) as ReadonlyArray<{
    readonly id: number;
    readonly content: string;
  }>;
  const own = added.flatMap(({ id, content }) => (content === end ? [id] : []));
  return [...new Set([...own, ...(await configuredStops(dir))])];
}

/** Errors: `UnusableTokenizer`. */
export async function loadTokenizer(dir: string): Promise<Tokenizer> {
  const definition = await readJson(dir, 'tokenizer.json');
  if (definition === undefined) throw new UnusableTokenizer(dir, 'tokenizer.json is missing');
  const config = (await readJson(dir, 'tokenizer_config.json')) ?? {};
  const core = new TokenizerCore(definition, config);
  const added = core.get_added_tokens_decoder();
  const tokens = specialTokens(config);
  const chatTemplate = await templateSource(dir, config);
  const template = new ChatTemplate(chatTemplate, tokens);
  const tokenId = (token: string | undefined): number | undefined =>
    token === undefined ? undefined : core.token_to_id(token);
  const end = tokenId(tokens['eos_token']);
  const stops = [...new Set([...(end === undefined ? [] : [end]), ...(await configuredStops(dir))])];
  const [first] = stops;
  const vocabulary = core.get_vocab(true);
  let [longestToken, lastToken] = [1, 0];
  for (const [token, id] of vocabulary) {
    longestToken = Math.max(longestToken, Buffer.byteLength(token));
    lastToken = Math.max(lastToken, id);
  }
  if (first === undefined)
    throw new UnusableTokenizer(dir, 'no token ends a turn: set eos_token in tokenizer_config.json');
  // The library throws for an empty list.
  const decode: Tokenizer['decode'] = (ids, options) =>
    ids.length === 0
      ? ''
      : core.decode([...ids], { skip_special_tokens: options?.skipSpecialTokens ?? false, ...EXACT });
  const texts = { textOf: (id: number) => core.id_to_token(id), isAdded: (id: number) => added.has(id) };
  return {
    encode: (text, options) => core.encode(text, { add_special_tokens: options?.addSpecialTokens ?? false }).ids,
    decode,
    bytesOf: tokenBytes({ decoder: definition['decoder'], decode, ...texts }),
    renderChat: (messages, tools, { addGenerationPrompt }) =>
      template.render({
        messages: messages.map(templateMessage),
        tools: tools.length === 0 ? null : tools.map(templateTool),
        variables: { add_generation_prompt: addGenerationPrompt },
      }),
    maskSpans: (text, spans, ids) => assistantMask(text, spans, ids, texts),
    chatTemplate,
    template,
    endOfTurn: tokens['eos_token'] ?? core.id_to_token(first) ?? '',
    stopTokenIds: stops,
    padTokenId: tokenId(tokens['pad_token']),
    tokenId,
    size: vocabulary.size,
    longestToken,
    lastToken,
  };
}
