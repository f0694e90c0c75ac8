/** Results of the Tinker API: waited for, read as often as wanted, in protobuf or JSON; samples can be cancelled. */

import { setTimeout as sleep } from 'node:timers/promises';
import type { z } from 'zod';
import type { retrieveBody, retrieveManyBody } from '../../endpoints/tinker/wire/bodies.ts';
import { encodePassAnswer } from '../../endpoints/tinker/wire/pass-answer.ts';
import { encodeSampleAnswer } from '../../endpoints/tinker/wire/sample-answer.ts';
import type { TinkerPassResult, TinkerSampleResult } from '../../protocol/tinker.ts';
import type { TinkerFuture } from '../../store/tinker/journal.ts';
import { StoreCorrupt } from '../../store/disk-errors.ts';
import { ApiError } from '../http/api-error.ts';
import { numberOfUnnamed, parsePath } from './paths.ts';
import { samplerId } from './samplers.ts';
import { type Call, quoted, samplerOf } from './service.ts';

/** Clients give up after 45 s, and ask again. */
export const HOLD_MS = 30_000;
/** A longer result is announced with its size first, where the client can take that. */
const INLINE_BYTES = 2 ** 20;
const PAGE = 1000;
const LOOK_MS = 200;

export type Answer = { readonly json: object } | { readonly protobuf: Uint8Array };
type Finished = Extract<TinkerFuture, { state: 'finished' }>;

const unknownFuture = (id: string): ApiError =>
  new ApiError(404, `request_id: ${quoted(id)} does not exist, or belongs to another API key`);

/**
 * A metric that is not finite, as the ratio to a log-probability of −1000, is the greatest number there is: JSON has no
 * infinity, and clients that merge the metrics of several passes need each name.
 */
const bounded = (result: TinkerPassResult): TinkerPassResult => ({
  ...result,
  metrics: Object.fromEntries(
    Object.entries(result.metrics).flatMap(([name, value]) =>
      Number.isNaN(value) ? [] : [[name, Math.min(Math.max(value, -Number.MAX_VALUE), Number.MAX_VALUE)]],
    ),
  ),
});

/** JSON has no NaN. */
const orNull = (values: Float32Array): Array<number | null> =>
  Array.from(values, (value) => (Number.isFinite(value) ? value : null));

function passJson({ logprobs, metrics }: TinkerPassResult): object {
  return {
    loss_fn_output_type: 'ArrayRecord',
    loss_fn_outputs: logprobs.map((row) => ({
      logprobs: { data: orNull(row), dtype: 'float32', shape: [row.length] },
    })),
    metrics,
  };
}

type Top = NonNullable<TinkerSampleResult['topPrompt']>;
const topJson = (top: Top) =>
  top.map((row) => (row.length > 0 ? row.map(({ token, logprob }) => [token, logprob]) : null));

function sampleJson({ sequences, promptLogprobs, topPrompt }: TinkerSampleResult): object {
  return {
    type: 'sample',
    sequences: sequences.map(({ finish, tokens, logprobs, top }) => ({
      stop_reason: finish,
      tokens: [...tokens],
      logprobs: orNull(logprobs),
      ...(top === undefined ? {} : { topk_logprobs: topJson(top) }),
    })),
    prompt_logprobs: promptLogprobs === undefined ? null : orNull(promptLogprobs),
    topk_prompt_logprobs: topPrompt === undefined ? null : topJson(topPrompt),
  };
}

function savedJson(lane: string, path: string): object {
  const { folder, name } = parsePath(path);
  if (folder === 'weights') return { type: 'save_weights', path };
  const number = numberOfUnnamed(name);
  const session = lane.replace(/:train:\d+$/, '');
  const sampler = number === undefined ? {} : { sampling_session_id: samplerId(session, number) };
  return { type: 'save_weights_for_sampler', path, ...sampler };
}

function answerOf({ lane, operation, result }: Finished, wantsProtobuf: boolean): Answer {
  switch (result.kind) {
    case 'failed':
      return { json: { error: result.message, category: result.category } };
    case 'pass':
      return wantsProtobuf
        ? { protobuf: encodePassAnswer(bounded(result.result)) }
        : { json: passJson(bounded(result.result)) };
    case 'sample':
      return wantsProtobuf ? { protobuf: encodeSampleAnswer(result.result) } : { json: sampleJson(result.result) };
    case 'optim_step':
      return { json: { metrics: { 'grad_norm:mean': result.gradNorm } } };
    case 'saved':
      return { json: savedJson(lane, result.path) };
    case 'done':
      return { json: { type: operation, model_id: lane } };
  }
}

/** Errors: `ApiError` 404. */
export async function retrieve(
  { service, tenant, signal }: Call,
  { request_id: id, allow_metadata_only: mayAnnounce }: z.output<typeof retrieveBody>,
  wantsProtobuf: boolean,
  holdMs = HOLD_MS,
): Promise<Answer> {
  const future = await service.journal.waitFor(id, tenant, holdMs, signal()).catch((error: unknown) => {
    if (error instanceof StoreCorrupt) return 'damaged' as const;
    throw error;
  });
  // As a result: the client would ask again for ever after a 500.
  if (future === 'damaged')
    return { json: { error: 'the result is damaged on the disk of the server', category: 'server' } };
  if (future === undefined) throw unknownFuture(id);
  if (future.state === 'waiting') return { json: { type: 'try_again', request_id: id, queue_state: 'active' } };
  const answer = answerOf(future, wantsProtobuf);
  if (!mayAnnounce || !('protobuf' in answer) || answer.protobuf.length <= INLINE_BYTES) return answer;
  return { json: { status: 'complete_metadata', response_payload_size: answer.protobuf.length } };
}

/** What became ready in a sampler's lane since the cursor; waits for the first one. */
export async function retrieveMany(call: Call, body: z.output<typeof retrieveManyBody>): Promise<object> {
  const { service } = call;
  const signal = call.signal();
  const { id } = await samplerOf(call, body.target.sampling_session_id);
  const end = Date.now() + Math.min(HOLD_MS, (body.timeout ?? HOLD_MS / 1000) * 1000);
  for (;;) {
    const ready = await service.journal.finishedOf(id, body.prev_cursor, PAGE);
    if (ready.length > 0 || Date.now() >= end || signal.aborted)
      return {
        completions: ready.map(({ requestId, failed }) => ({
          state: failed ? 'failed' : 'finished',
          request_id: requestId,
        })),
        cursor: ready.at(-1)?.cursor ?? body.prev_cursor,
      };
    await sleep(LOOK_MS, undefined, { signal }).catch(() => undefined);
  }
}

/** A sample that waits fails as cancelled; one that is being made may still end. Nothing else can be cancelled. */
export async function cancel({ service, tenant }: Call, id: string): Promise<object> {
  const { journal } = service;
  const future = await journal.future(id, tenant);
  if (future === undefined) throw unknownFuture(id);
  if (future.state === 'waiting') {
    if (!(await journal.sampler(future.lane)))
      throw new ApiError(400, `request_id: ${quoted(id)} is no sample; operations of a model cannot be cancelled`);
    await journal.finish(id, { kind: 'failed', category: 'user', message: 'the request was cancelled' });
  }
  return { status: 'ok' };
}
