/**
 * How a conversation with tools is given to a policy's chat template. A template that lists tools and writes calls gets
 * messages as they are. For another one, calls and answers become text in the codec's form, and a preamble in the
 * system message explains the tools.
 */

import type { ConversationSettings } from '../protocol/conversation.ts';
import type { Message, ToolSchema } from '../protocol/message.ts';
import { UserInputError } from '../protocol/user-input-error.ts';
import type { Codec } from './codecs/codec.ts';
import { codecNamed, codecOfTemplate, writtenCodec } from './codecs/codecs.ts';
import type { ChatTokenizer } from './render-conversation.ts';

/** What a template is given. */
export interface Rendered {
  readonly messages: readonly Message[];
  readonly tools: readonly ToolSchema[];
}

export interface ConversationForm {
  readonly codec: Codec;
  /** False if calls and answers become text. */
  readonly isNative: boolean;
  /** The whole conversation, from its first message on. */
  whole(messages: readonly Message[], tools: readonly ToolSchema[]): Rendered;
  /** Messages that follow a sampled turn. */
  added(messages: readonly Message[]): readonly Message[];
}

type TemplateTokenizer = Pick<ChatTokenizer, 'renderChat'> & { readonly chatTemplate: string };

const PROBE = 'probe_8c1f';
const USER: Message = { role: 'user', content: 'x' };
const PROBE_TOOL: ToolSchema = {
  type: 'function',
  function: { name: PROBE, description: PROBE, parameters: { type: 'object', properties: {}, required: [] } },
};

/** True if the template prints the probe. A template that refuses such messages does not. */
function prints(
  { renderChat }: TemplateTokenizer,
  messages: readonly Message[],
  tools: readonly ToolSchema[],
): boolean {
  try {
    return renderChat(messages, tools, { addGenerationPrompt: true }).includes(PROBE);
  } catch {
    return false;
  }
}

interface Traits {
  readonly listsTools: boolean;
  readonly hasSystem: boolean;
}

const known = new WeakMap<TemplateTokenizer, Traits>();

function traitsOf(tokenizer: TemplateTokenizer): Traits {
  const cached = known.get(tokenizer);
  if (cached) return cached;
  const traits = {
    listsTools: prints(tokenizer, [USER], [PROBE_TOOL]),
    hasSystem: prints(tokenizer, [{ role: 'system', content: PROBE }, USER], []),
  };
  known.set(tokenizer, traits);
  return traits;
}

/** The text that explains tools and the form of calls. */
export function preambleOf(codec: Codec, tools: readonly ToolSchema[]): string {
  const many = codec.several ? 'A message may have several calls, one after the other.' : 'Write one call a message.';
  return [
    'You can call these tools, given as JSON schemas, one a line:',
    '<tools>',
    ...tools.map((tool) => JSON.stringify(tool.function)),
    '</tools>',
    '',
    `To call a tool, write its name and its parameters in this form. ${many} The results come in the next message.`,
    codec.form,
  ].join('\n');
}

/** The preamble at the end of the system message; at the start of the first message if the template has no system. */
function withPreamble(
  messages: readonly Message[],
  tools: readonly ToolSchema[],
  codec: Codec,
  { hasSystem }: Pick<Traits, 'hasSystem'>,
): readonly Message[] {
  if (tools.length === 0) return messages;
  const preamble = preambleOf(codec, tools);
  const [first, ...rest] = messages;
  if (first?.role === 'system' && hasSystem)
    return [{ ...first, content: first.content === '' ? preamble : `${first.content}\n\n${preamble}` }, ...rest];
  if (hasSystem) return [{ role: 'system', content: preamble }, ...messages];
  return first === undefined
    ? [{ role: 'user', content: preamble }]
    : [{ ...first, content: `${preamble}\n\n${first.content}` }, ...rest];
}

function textOf(message: Message, codec: Codec): Message {
  if (message.role === 'tool') return { role: 'user', content: codec.answerText(message.name, message.content) };
  if (message.role !== 'assistant') return message;
  const calls = (message.toolCalls ?? []).map((call) => codec.callText(call));
  return { role: 'assistant', content: [message.content, ...calls].filter((part) => part !== '').join('\n') };
}

/** Messages without calls and answers. What follows a turn is one message: many templates want roles to alternate. */
export function asText(messages: readonly Message[], codec: Codec): Message[] {
  const texts: Message[] = [];
  for (const message of messages.map((one) => textOf(one, codec))) {
    const before = texts.at(-1);
    const isMore = before?.role === 'user' && message.role === 'user';
    if (isMore) texts[texts.length - 1] = { role: 'user', content: `${before.content}\n${message.content}` };
    else texts.push(message);
  }
  return texts;
}

/** Calls and answers as text, for a template or a server that knows no tools. */
export function textForm(
  codec: Codec,
  preamble: ConversationSettings['preamble'] = 'auto',
  traits: Pick<Traits, 'hasSystem'> = { hasSystem: true },
): ConversationForm {
  return {
    codec,
    isNative: false,
    whole(messages, tools) {
      const texts = asText(messages, codec);
      return { messages: preamble === 'never' ? texts : withPreamble(texts, tools, codec, traits), tools: [] };
    },
    added: (messages) => asText(messages, codec),
  };
}

function chosenCodec(tokenizer: TemplateTokenizer, { codec }: ConversationSettings): Codec {
  if (codec === 'server')
    throw new UserInputError(
      'agent.codec',
      codec,
      'leave it out, or give a codec that reads text: only an endpoint that is asked in chat parses calls itself',
    );
  return codec === undefined ? codecOfTemplate(tokenizer.chatTemplate) : codecNamed(codec);
}

/** Errors: `UserInputError` for the codec `server`, since a policy in token ids has no server that parses. */
export function conversationForm(tokenizer: TemplateTokenizer, settings: ConversationSettings): ConversationForm {
  const codec = chosenCodec(tokenizer, settings);
  const { preamble = 'auto' } = settings;
  const written = writtenCodec(tokenizer.chatTemplate);
  const lists = (): boolean => traitsOf(tokenizer).listsTools;
  const isNative = settings.codec === undefined ? written !== undefined || lists() : written === codec;
  const explained = (messages: readonly Message[], tools: readonly ToolSchema[]) =>
    withPreamble(messages, tools, codec, traitsOf(tokenizer));
  if (!isNative) return textForm(codec, preamble, traitsOf(tokenizer));
  const isMissing = preamble === 'always' && !lists();
  return {
    codec,
    isNative: true,
    whole: (messages, tools) => ({ messages: isMissing ? explained(messages, tools) : messages, tools }),
    added: (messages) => messages,
  };
}
