/**
 * Sends one model call to its rollout and waits for the turn, as long as it takes: an update that comes too early, or
 * that no server answers, is repeated under the same name, which has one turn.
 */

import { type Client, WorkflowNotFoundError, WorkflowUpdateFailedError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { setTimeout as sleep } from 'node:timers/promises';
import { BUDGET_SPENT, CALL_MODEL, type ModelCall, type ModelCallAnswer } from '../../protocol/gateway.ts';
import { REFUSED } from '../../protocol/program.ts';
import { ApiError } from '../http/api-error.ts';

const RETRY_MS = 100;
const LONGEST_RETRY_MS = 5_000;

/** Refused by the rollout: an API's error. `undefined`: it is repeated. */
function refusalOf(error: unknown): ApiError | undefined {
  if (error instanceof WorkflowNotFoundError)
    return new ApiError(403, 'the rollout has ended', { code: 'rollout_over' });
  const cause = error instanceof WorkflowUpdateFailedError ? error.cause : undefined;
  if (!(cause instanceof ApplicationFailure)) return undefined;
  const { type, message } = cause;
  // OpenAI's own answer to an account without credit: it is no rate that a retry could meet.
  if (type === BUDGET_SPENT) return new ApiError(429, message, { code: 'insufficient_quota' });
  if (type === REFUSED.over || type === REFUSED.lost) return new ApiError(403, message, { code: 'rollout_over' });
  if (type === REFUSED.wrong) return new ApiError(400, message);
  return undefined;
}

/** With `withAbortSignal`, a call that nobody waits for any more ends at once, before its connection is closed. */
export type CallClient = Pick<Client, 'workflow'> & Partial<Pick<Client, 'withAbortSignal'>>;

/** Errors: `ApiError`; the signal's reason. */
export async function sendCall(
  client: CallClient,
  rollout: string,
  call: ModelCall,
  signal: AbortSignal,
): Promise<number> {
  const handle = client.workflow.getHandle(rollout);
  for (let pause = RETRY_MS; ; pause = Math.min(2 * pause, LONGEST_RETRY_MS)) {
    signal.throwIfAborted();
    try {
      const send = () => handle.executeUpdate<ModelCallAnswer, [ModelCall]>(CALL_MODEL, { args: [call] });
      return (await (client.withAbortSignal ? client.withAbortSignal(signal, send) : send())).turn;
    } catch (error) {
      const refused = refusalOf(error);
      if (refused !== undefined) throw refused;
    }
    await sleep(pause, undefined, { signal });
  }
}
