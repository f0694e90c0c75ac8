/** The replies to prepared chats, in the shape of the API that asked. */

import type { ChatAnswer, ChatDelta } from '../apis/chat.ts';
import { MessageEvents, messageOf } from '../apis/messages-answer.ts';
import { ChatChunks, chatCompletionOf } from '../apis/openai-chat.ts';
import { answerItems, ResponseEvents, responseId, responseOf } from '../apis/responses-answer.ts';
import { answerTurn, type ChatModel, type TurnAnswer } from './answer-turn.ts';
import { errorBody } from './api-error.ts';
import type { PreparedChat, PreparedResponse, PreparedTurn } from './prepare-request.ts';
import { newMeta, promptLogprobsOf, type Reply, seedKey } from './reply.ts';
import type { ResponseMemory } from './response-memory.ts';

/** `/v1/chat/completions`. */
export function chatReply({ turn, fields }: PreparedChat, model: ChatModel, signal: AbortSignal): Reply {
  const { query, prompt } = turn;
  const key = seedKey(query.seed);
  const meta = newMeta(model);
  const choices = Array.from({ length: fields.n }, (_, index) => index);
  const answered = (index: number, onDeltas?: (deltas: readonly ChatDelta[]) => void): Promise<TurnAnswer> =>
    answerTurn(
      turn,
      model,
      {
        noiseKey: `${key}/${index}`,
        reasoning: 'text',
        stopTokenIds: fields.stop_token_ids,
        skipSpecialTokens: fields.skip_special_tokens,
        promptAlternatives: index === 0 ? (fields.prompt_logprobs ?? undefined) : undefined,
        ...(onDeltas ? { onDeltas } : {}),
      },
      signal,
    );
  if (!query.stream) {
    return {
      body: async () => {
        const all = await Promise.all(choices.map((index) => answered(index)));
        const { promptLogprobs } = all[0]?.sampled ?? {};
        const nameOf = (id: number) => model.tokenizer.decode([id]);
        const own = {
          ...(fields.return_token_ids ? { prompt_token_ids: prompt } : {}),
          ...(promptLogprobs ? { prompt_logprobs: promptLogprobsOf(promptLogprobs, nameOf) } : {}),
        };
        const ofChoice = (index: number) =>
          fields.return_token_ids ? { token_ids: all[index]?.sampled.tokens ?? [] } : {};
        const answers = all.map(({ answer }) => answer);
        return chatCompletionOf(answers, meta, { own, ofChoice });
      },
    };
  }
  return {
    last: '[DONE]',
    failed: (refused) => [{ data: errorBody(refused) }],
    stream: async (send) => {
      const hasUsage = fields.stream_options?.include_usage ?? false;
      const chunks = new ChatChunks(meta, { hasUsage });
      const sendAll = (all: readonly object[]) => all.forEach((data) => send({ data }));
      const answers = await Promise.all(
        choices.map(async (index) => {
          const { answer } = await answered(index, (deltas) => {
            // Sent after the first sampled token: until then, a refusal can still have its own status.
            sendAll(chunks.begin(index));
            for (const delta of deltas) if (delta.kind === 'text') sendAll([chunks.text(index, delta.text)]);
          });
          sendAll(chunks.end(index, answer));
          return answer;
        }),
      );
      if (hasUsage) sendAll([chunks.usage(answers)]);
    },
  };
}

/** Samples one answer; `onStart` is called before the first deltas, after the first sampled token. */
async function answerOne(
  turn: PreparedTurn,
  model: ChatModel,
  signal: AbortSignal,
  streamed?: { readonly onStart: () => void; readonly onDelta: (delta: ChatDelta) => void },
): Promise<ChatAnswer> {
  let isStarted = false;
  const onDeltas = (deltas: readonly ChatDelta[]) => {
    if (!isStarted) streamed?.onStart();
    isStarted = true;
    deltas.forEach((delta) => streamed?.onDelta(delta));
  };
  const { answer } = await answerTurn(
    turn,
    model,
    { noiseKey: `${seedKey(turn.query.seed)}/0`, reasoning: 'separate', ...(streamed ? { onDeltas } : {}) },
    signal,
  );
  return answer;
}

/** `/v1/responses`. A response is kept in `memory` unless the request says `store: false`. */
export function responseReply(
  { turn, fields, isStored, items }: PreparedResponse,
  model: ChatModel,
  memory: ResponseMemory,
  signal: AbortSignal,
): Reply {
  const meta = newMeta(model);
  const kept = (answer: ChatAnswer): object => {
    const response = responseOf(answer, meta, fields);
    if (isStored) memory.add(responseId(meta), { response, items: [...items, ...answerItems(answer)] });
    return response;
  };
  if (!turn.query.stream) return { body: async () => kept(await answerOne(turn, model, signal)) };
  const events = new ResponseEvents(meta, fields);
  return {
    failed: ({ message }) => events.fail(message),
    stream: async (send) => {
      const answer = await answerOne(turn, model, signal, {
        onStart: () => events.start().forEach(send),
        onDelta: (delta) => events.delta(delta).forEach(send),
      });
      // Before the last event: the caller may continue it at once.
      kept(answer);
      events.end(answer).forEach(send);
    },
  };
}

/** `/v1/messages`. */
export function messageReply(turn: PreparedTurn, model: ChatModel, signal: AbortSignal): Reply {
  const meta = newMeta(model);
  if (!turn.query.stream) return { body: async () => messageOf(await answerOne(turn, model, signal), meta) };
  const events = new MessageEvents(meta);
  return {
    failed: (refused) => events.fail(refused),
    stream: async (send) => {
      const answer = await answerOne(turn, model, signal, {
        onStart: () => events.start(turn.prompt.length).forEach(send),
        onDelta: (delta) => events.delta(delta).forEach(send),
      });
      events.end(answer).forEach(send);
    },
  };
}
