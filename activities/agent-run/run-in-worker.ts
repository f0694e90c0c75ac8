/** Runs one call of a tool in this process: it ends by its deadline, and no secret is in what it answers or throws. */

import type { Observation, Tool } from '../../agents/tools/tool.ts';
import { type ToolCall } from '../../protocol/message.ts';
import type { Asking, Attempt } from '../../protocol/stages.ts';
import { earlierCalls } from '../../store/earlier-calls.ts';
import type { Store } from '../../store/store.ts';
import { type AskDeps, withAsk } from '../ask.ts';
import { orAborted } from '../or-aborted.ts';
import { putObjectOf, withImages } from './rollout-objects.ts';
import type { Secrets } from './secrets.ts';

/** The answer to a call with effects outside that began, and whose answer is not known. */
export const OUTCOME_UNKNOWN =
  '[outcome unknown: the call began and was interrupted; it may or may not have had its effect, and is not repeated]';

export interface WorkerCall {
  readonly call: ToolCall;
  readonly tool: Tool;
  readonly attempt: Attempt & Asking;
  readonly turn: number;
  /** Its place in the turn. */
  readonly index: number;
  readonly callId: string;
  readonly timeoutMs: number;
  readonly store: Pick<Store, 'getObject' | 'putOnceWithObject' | 'list'>;
  readonly asking: AskDeps;
  readonly secrets: Secrets;
  /** Aborted if the answer no longer counts. */
  readonly signal: AbortSignal;
}

function late({ effect }: Tool, timeoutMs: number): Observation {
  const content = `[timed out after ${timeoutMs / 1000} s]`;
  return { content: effect === 'outside' ? `${content}\n${OUTCOME_UNKNOWN}` : content };
}

/** Errors: those of the tool; the reason of `signal`. */
export async function runInWorker(
  asked: WorkerCall,
): Promise<{ readonly observation: Observation; readonly ms: number }> {
  const { call, tool, attempt, turn, index, callId, timeoutMs, store, asking, secrets, signal } = asked;
  const begun = Date.now();
  const over = AbortSignal.timeout(timeoutMs);
  const either = AbortSignal.any([signal, over]);
  const worker = {
    rollout: attempt.rollout,
    attempt: attempt.attempt,
    turn,
    objects: { get: store.getObject.bind(store), put: (bytes: Uint8Array) => putObjectOf(attempt, bytes, store) },
    secret: (name: string) => secrets.get(name),
    earlierCalls: () => earlierCalls(call.name, attempt, { turn, index }, store),
    signal: either,
  };
  const spent = () => Math.min(timeoutMs, Date.now() - begun);
  try {
    const by = { attempt, place: `tool/${turn}/${index}`, signal: either, withinMs: timeoutMs };
    const { content, ...rest } = await orAborted(
      () =>
        withAsk(by, asking, (asks) => tool.run(call, undefined, { callId, timeoutMs, worker: { ...worker, ...asks } })),
      either,
    );
    const observation = await withImages({ content: secrets.redact(content), ...rest }, attempt, store);
    return { observation, ms: spent() };
  } catch (error) {
    signal.throwIfAborted();
    if (over.aborted) return { observation: late(tool, timeoutMs), ms: timeoutMs };
    throw secrets.redactError(error);
  }
}
