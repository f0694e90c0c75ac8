/** The result of an accepted request: polled until it is there, has failed, or the server is away for too long. */

import { setTimeout as sleep } from 'node:timers/promises';
import { EndpointError } from '../endpoint-error.ts';
import { type Answer, jsonOf, refusal, type TinkerRequests, TinkerRefused, waitMs } from './requests.ts';

/** A poll of the SDK: a server answers sooner, with `try_again` or status 408. */
const POLL_MS = 45_000;
/** How long a server may be unreachable while a result is waited for. */
const AWAY_MS = 300_000;
const BETWEEN_POLLS_MS = 50;

const isPending = (value: Readonly<Record<string, unknown>>): boolean => value['type'] === 'try_again';

/** Throws what a failed future says. */
function checkDone(value: Readonly<Record<string, unknown>>, what: string): void {
  const { error, category } = value;
  if (typeof error === 'string' && error !== '')
    throw new TinkerRefused(0, `${what} failed (${typeof category === 'string' ? category : 'unknown'}): ${error}`);
}

/**
 * `what` names the request in errors. Errors: `TinkerRefused` if the work failed; `EndpointError` if the server is away
 * for five minutes; the reason of `signal`.
 */
export async function retrieveFuture(
  requests: TinkerRequests,
  id: string,
  what: string,
  signal: AbortSignal,
): Promise<Answer> {
  let away = 0;
  let since = Date.now();
  for (;;) {
    const body = { json: { request_id: id, allow_metadata_only: false } };
    const answer = await requests.once('retrieve_future', body, signal, POLL_MS).catch((error: unknown) => {
      if (error instanceof EndpointError && error.isTransient) return error;
      throw error;
    });
    if (answer instanceof EndpointError && answer.kind === 'timeout') continue;
    if (!(answer instanceof EndpointError) && answer.status < 500 && answer.status !== 429) {
      since = Date.now();
      away = 0;
      if (answer.status !== 408) {
        if (answer.status !== 200) throw refusal(what, answer);
        if (answer.isProtobuf) return answer;
        const value = jsonOf(answer);
        if (!isPending(value)) {
          checkDone(value, what);
          return answer;
        }
      }
      await sleep(BETWEEN_POLLS_MS, undefined, { signal });
      continue;
    }
    if (Date.now() - since > AWAY_MS)
      throw answer instanceof EndpointError ? answer : refusal(what, answer);
    await sleep(waitMs(away++), undefined, { signal });
  }
}
