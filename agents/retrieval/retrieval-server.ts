/**
 * A server with SkyRL's retrieval API: POST `{query | queries, topk, return_scores}`. What may pass is retried ten
 * times with a growing pause; a server that stays down is an error, never an answer.
 */

import { setTimeout as pause } from 'node:timers/promises';
import { guardedLookup } from '../../endpoints/never-asked.ts';
import { exchange, type HttpAnswer } from '../web/http.ts';
import { checkServer } from '../web/operator-lists.ts';
import { ServiceUnavailable } from '../web/service-unavailable.ts';

export interface RetrievalServer {
  readonly url: string;
  /** For one try. */
  readonly timeoutSeconds: number;
  /** `queries`: a list of one query, as SkyRL-Agent asks. `query`: one text, as SkyRL-Gym does. */
  readonly asks: 'query' | 'queries';
}

export interface Within {
  readonly signal: AbortSignal;
  /** Milliseconds since the epoch by which the caller must have ended. */
  readonly deadline: number;
  /** Waits between tries. Absent: real time. */
  readonly wait?: (ms: number, signal: AbortSignal) => Promise<unknown>;
}

const MOST_TRIES = 10;
const FIRST_PAUSE_MS = 1000;
const MOST_ANSWER_BYTES = 32 * 1024 * 1024;
const PASSES = [500, 502, 503, 504];
/** Time for the caller to report that there was no answer. */
const REPORT_MS = 1500;
/** Statuses with which a server refuses the query itself. */
const OF_QUERY = [400, 413, 414, 422];

/** The query, not the server, is at fault. */
export const isOfQuery = ({ kind, status }: ServiceUnavailable): boolean =>
  kind === 'client' && OF_QUERY.includes(status ?? 0);

function read({ status, bytes, isCut }: HttpAnswer, url: string): unknown {
  if (PASSES.includes(status) || status === 429)
    throw new ServiceUnavailable('server', `API Request Error: Server Error (${status})`, { status });
  if (status < 200 || status >= 300)
    throw new ServiceUnavailable('client', `API Request Error: ${status} for url: ${url}`, { status });
  const text = bytes.toString('utf8');
  try {
    return JSON.parse(text);
  } catch (error) {
    const why = isCut ? `longer than ${MOST_ANSWER_BYTES} bytes` : (error as Error).message;
    throw new ServiceUnavailable('not-json', `API Response JSON Decode Error: ${why}, Response: ${text.slice(0, 200)}`);
  }
}

const mayPass = ({ kind }: ServiceUnavailable): boolean =>
  kind === 'server' || kind === 'connection' || kind === 'timeout';

/** The server's JSON, as it is. Errors: `ServiceUnavailable`; the reason of `signal`. */
export async function askRetrievalServer(
  { url, timeoutSeconds, asks }: RetrievalServer,
  { query, topk }: { readonly query: string; readonly topk: number },
  { signal, deadline, wait = (ms, until) => pause(ms, undefined, { signal: until }) }: Within,
): Promise<unknown> {
  const target = new URL(url);
  checkServer('searchUrl', target);
  const asked = asks === 'query' ? { query } : { queries: [query] };
  const body = JSON.stringify({ ...asked, topk, return_scores: true });
  const headers = { 'content-type': 'application/json', accept: 'application/json' };
  const left = () => deadline - Date.now() - REPORT_MS;
  for (let tries = 1; ; tries += 1) {
    try {
      const timeoutMs = Math.min(timeoutSeconds * 1000, Math.max(1, left()));
      const request = { url: target, method: 'POST', headers, body, maxBytes: MOST_ANSWER_BYTES } as const;
      return read(await exchange({ ...request, timeoutMs, signal, lookup: guardedLookup }), url);
    } catch (error) {
      if (!(error instanceof ServiceUnavailable) || !mayPass(error)) throw error;
      const ms = FIRST_PAUSE_MS * tries;
      if (tries >= MOST_TRIES || ms >= left()) throw error;
      await wait(ms, signal);
    }
  }
}
