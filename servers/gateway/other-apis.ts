/**
 * OpenAI's `/v1/responses` and Anthropic's `/v1/messages` for a recorded rollout, by the functions that all servers
 * share.
 */

import { askedDigest } from '../../activities/generate/call-digests.ts';
import type { CallRequest } from '../../protocol/gateway.ts';
import { argumentsText } from '../../protocol/message.ts';
import { memberOf, plainOf, readWritten } from '../../protocol/written-json.ts';
import type { AnswerMeta, ApiEvent, ChatAnswer, ChatDelta, ChatQuery } from '../apis/chat.ts';
import { MessageEvents, messageOf } from '../apis/messages-answer.ts';
import { readMessages } from '../apis/messages-request.ts';
import { ResponseEvents, responseOf } from '../apis/responses-answer.ts';
import { readResponse } from '../apis/responses-request.ts';
import { ApiError } from '../http/api-error.ts';
import {
  type AnsweredCall,
  type AskedCall,
  bodyText,
  checkStops,
  dated,
  jsonAnswer,
  streamAnswer,
} from './chat-api.ts';

/** Errors: `ApiError` for what a recorded rollout cannot do. */
function requestOf({ messages, tools, prefill, maxTokens, stops }: ChatQuery): CallRequest {
  if (prefill !== '')
    throw new ApiError(400, 'messages: the last one is the model’s own, which it cannot continue', {
      param: 'messages',
    });
  checkStops(stops, 'stop_sequences');
  return {
    messages,
    tools: tools.map(({ type, function: { name, description, parameters } }) => ({
      type,
      function: { name, description, parameters: plainOf(parameters) as Record<string, unknown> },
    })),
    ...(maxTokens !== undefined && { maxTokens }),
    ...(stops.length > 0 && { stop: stops }),
  };
}

function bodyOf(body: Uint8Array): unknown {
  try {
    return readWritten(bodyText(body));
  } catch (error) {
    throw new ApiError(400, `the body is not JSON: ${(error as Error).message.slice(0, 200)}`);
  }
}

/** Reasoning stays in the text, so that what comes back is what was sampled. */
function answerOf({ turn, record }: AnsweredCall): ChatAnswer {
  const { parsed, end, stopText, sampled, call, chat } = record;
  const calls = parsed.kind === 'calls' ? parsed.calls : [];
  return {
    reasoning: '',
    content: parsed.content,
    calls: calls.map((one, i) => ({ id: `${turn}-${i}`, name: one.name, arguments: argumentsText(one) })),
    finish: end === 'length' || end === 'context' ? end : 'stop',
    ...(stopText !== undefined && { stopText }),
    promptTokens: chat?.usage?.promptTokens ?? call?.promptTokens ?? 0,
    answerTokens: chat?.usage?.completionTokens ?? sampled.length,
    reasoningTokens: 0,
  };
}

const deltasOf = ({ content, calls }: ChatAnswer): ChatDelta[] => [
  ...(content === '' ? [] : [{ kind: 'text' as const, text: content }]),
  ...calls.map((call) => ({ kind: 'call' as const, call })),
];

const textOf = (events: readonly ApiEvent[]): string =>
  events
    .map(({ event, data }) => `${event === undefined ? '' : `event: ${event}\n`}data: ${JSON.stringify(data)}\n\n`)
    .join('');

function askedBy(query: ChatQuery, answer: (answer: ChatAnswer, meta: AnswerMeta) => object | ApiEvent[]): AskedCall {
  const request = requestOf(query);
  return {
    request,
    asked: askedDigest(request),
    answer: (answered) => {
      const meta = { id: answered.id, created: dated(answered.at), model: query.model };
      const written = answer(answerOf(answered), meta);
      return Array.isArray(written) ? streamAnswer(textOf(written as ApiEvent[])) : jsonAnswer(written);
    },
  };
}

/** Errors: `ApiError`. */
export function readMessagesCall(body: Uint8Array): AskedCall {
  const query = readMessages(bodyOf(body));
  return askedBy(query, (answer, meta) => {
    if (!query.stream) return messageOf(answer, meta);
    const events = new MessageEvents(meta);
    const deltas = deltasOf(answer).flatMap((delta) => events.delta(delta));
    return [...events.start(answer.promptTokens), ...deltas, ...events.end(answer)];
  });
}

/** Errors: `ApiError`, also for a response that continues another by its id: nothing is kept under ids. */
export function readResponsesCall(body: Uint8Array): AskedCall {
  const given = bodyOf(body);
  if (typeof memberOf(given, 'previous_response_id') === 'string')
    throw new ApiError(400, 'previous_response_id: send all items, with store: false', {
      param: 'previous_response_id',
    });
  const { query, fields } = readResponse(given);
  return askedBy(query, (answer, meta) => {
    if (!query.stream) return responseOf(answer, meta, fields);
    const events = new ResponseEvents(meta, fields);
    const started = events.start();
    const deltas = deltasOf(answer).flatMap((delta) => events.delta(delta));
    return [...started, ...deltas, ...events.end(answer)];
  });
}
