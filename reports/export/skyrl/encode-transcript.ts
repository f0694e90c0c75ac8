/**
 * A transcript without token ids, encoded as SkyRL-Agent encodes it: the prompt by the tokenizer's own template, what
 * follows in ChatML. Sampled are the assistant's texts with the token that ends them; nobody gave log-probabilities.
 */

import type { Tokenizer } from '../../../trainer/tokenizer/load-tokenizer.ts';
import type { TextSpan } from '../../../trainer/tokenizer/assistant-mask.ts';
import type { SkyrlSequence } from './output.ts';

/** A message as text. Tool calls are part of its content. */
export interface TextMessage {
  readonly role: string;
  readonly content: string;
}

const THOUGHT_END = '</think>';

/** The text after the reasoning. */
function withoutThought(text: string): string {
  const end = text.lastIndexOf(THOUGHT_END);
  return end < 0 ? text : text.slice(end + THOUGHT_END.length).replace(/^\n+/u, '');
}

/** ChatML, and the spans of what the assistant said. */
function chatml(
  messages: readonly TextMessage[],
  removesReasoning: boolean,
): { readonly text: string; readonly spans: readonly TextSpan[] } {
  let text = '';
  const spans: TextSpan[] = [];
  for (const [i, { role, content }] of messages.entries()) {
    text += `<|im_start|>${role}\n`;
    const begin = text.length;
    const isFinal = i === messages.length - 1;
    text += role === 'assistant' && removesReasoning && !isFinal ? withoutThought(content) : content;
    text += '<|im_end|>';
    if (role === 'assistant') spans.push({ begin, end: text.length });
    text += '\n';
  }
  return { text, spans };
}

type Encoder = Pick<Tokenizer, 'encode' | 'maskSpans' | 'template'>;

/**
 * `removesReasoning`: of all messages of the assistant but a final one. Errors: `ChatTemplateRefused`,
 * `NoAssistantMask`.
 */
export function encodeTranscript(
  messages: readonly TextMessage[],
  tokenizer: Encoder,
  { removesReasoning = false }: { readonly removesReasoning?: boolean } = {},
): SkyrlSequence {
  const first = messages.findIndex(({ role }) => role === 'assistant');
  const start = first <= 0 ? messages.length : first;
  const prompt = tokenizer.template.render({
    messages: messages.slice(0, start).map(({ role, content }) => ({ role, content })),
    tools: null,
    variables: { add_generation_prompt: true },
  });
  const { text, spans } = chatml(messages.slice(start), removesReasoning);
  const response = tokenizer.encode(text);
  return {
    prompt: tokenizer.encode(prompt),
    response,
    mask: tokenizer.maskSpans(text, spans, response),
    logprobs: null,
  };
}
