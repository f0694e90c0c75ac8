/**
 * Samples the answer of a prepared chat, whatever API asked: its text is read as reasoning, text and calls in the form
 * of the policy's template. A call that cannot be parsed stays text, so that the client sees the policy's answer.
 */

import { randomUUID } from 'node:crypto';
import { endOfFirstCall } from '../../agents/codecs/codec.ts';
import { codecOfTemplate } from '../../agents/codecs/codecs.ts';
import type { TokenLogprob } from '../../trainer/generate-request.ts';
import type { ChatAnswer, ChatDelta, TokenShown } from '../apis/chat.ts';
import { TurnReader } from '../apis/turn.ts';
import type { PreparedTurn, PromptModel } from './prepare-request.ts';
import { type Answer, sampleAnswer, type ServedModel } from './sample-answer.ts';

export interface ChatModel extends ServedModel {
  readonly tokenizer: ServedModel['tokenizer'] & PromptModel['tokenizer'];
}

export interface TurnOptions {
  /** Seed of the noise. */
  readonly noiseKey: string;
  /** `text`: the reasoning stays in the text, with its tags. */
  readonly reasoning: 'separate' | 'text';
  readonly stopTokenIds?: readonly number[];
  readonly skipSpecialTokens?: boolean;
  readonly promptAlternatives?: number | undefined;
  /** If given, it receives the parts of the answer as they are sampled; after the first token, if only empty ones. */
  readonly onDeltas?: (deltas: readonly ChatDelta[]) => void;
}

export interface TurnAnswer {
  readonly answer: ChatAnswer;
  readonly sampled: Answer;
}

function shownLogprobs({ tokens, logprobs, alternatives }: Answer, { tokenizer }: ChatModel): TokenShown[] {
  const named = ({ token: id, logprob }: TokenLogprob) => ({
    token: tokenizer.decode([id]),
    logprob,
    bytes: tokenizer.bytesOf(id),
  });
  return tokens.map((token, i) => ({
    ...named({ token, logprob: logprobs[i] ?? 0 }),
    top: (alternatives[i] ?? []).map(named),
  }));
}

const CLOSE = '</think>';

/** Number of tokens up to the end of the reasoning. */
function reasoningTokens({ tokens }: Answer, reasoning: string, { tokenizer }: ChatModel): number {
  if (reasoning === '') return 0;
  let [least, most] = [0, tokens.length];
  while (least < most) {
    const middle = Math.floor((least + most) / 2);
    if (tokenizer.decode(tokens.slice(0, middle)).includes(CLOSE)) most = middle;
    else least = middle + 1;
  }
  return least;
}

/** Errors: those of the engine. */
export async function answerTurn(
  { query, prompt, hasTools, inReasoning, opening, maxTokens, isClipped }: PreparedTurn,
  model: ChatModel,
  options: TurnOptions,
  signal: AbortSignal,
): Promise<TurnAnswer> {
  const codec = codecOfTemplate(model.tokenizer.chatTemplate);
  const { stops, topLogprobs, oneCall, sampling } = query;
  const { onDeltas, reasoning, noiseKey } = options;
  const callId = () => randomUUID();
  const reader = new TurnReader({ codec, hasTools, inReasoning, reasoning, stops, opening, callId });
  const endOf = (text: string) => {
    const end = endOfFirstCall(`${opening}${text}`, codec, { inReasoning });
    return end === undefined ? undefined : Math.max(0, end - opening.length);
  };
  const sampled = await sampleAnswer(
    model,
    {
      prompt,
      sampling: { ...sampling, maxTokens },
      alternatives: topLogprobs ?? 0,
      promptAlternatives: options.promptAlternatives,
      stopTokenIds: options.stopTokenIds ?? [],
      stops,
      ...(hasTools && oneCall ? { endOf } : {}),
      // Tool calls may be written with special tokens.
      skipSpecialTokens: !hasTools && (options.skipSpecialTokens ?? true),
      noiseKey,
      ...(onDeltas ? { onText: (text: string) => onDeltas(reader.grow(text)) } : {}),
    },
    signal,
  );
  const { turn, deltas } = reader.end(sampled.text, sampled.finish === 'stop');
  onDeltas?.(deltas);
  const answer: ChatAnswer = {
    ...turn,
    finish: sampled.finish === 'length' && isClipped ? 'context' : sampled.finish,
    ...(sampled.stopText === undefined ? {} : { stopText: sampled.stopText }),
    promptTokens: prompt.length,
    answerTokens: sampled.tokens.length,
    reasoningTokens: reasoningTokens(sampled, turn.reasoning, model),
    ...(topLogprobs === undefined ? {} : { logprobs: shownLogprobs(sampled, model) }),
  };
  return { answer, sampled };
}
