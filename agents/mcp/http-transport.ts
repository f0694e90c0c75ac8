/**
 * MCP's Streamable HTTP (revisions 2025-03-26 and later): each message is a POST of its own, whose answer is JSON or a
 * stream of events. Nothing is kept between requests. Time and bytes of an answer are bounded.
 */

import { randomUUID } from 'node:crypto';
import { EndpointError } from '../../endpoints/endpoint-error.ts';
import { guardedLookup } from '../../endpoints/never-asked.ts';
import { isObject } from '../../protocol/message.ts';
import type { McpSession } from '../../protocol/records.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { isDeep } from '../tools/schema/arguments.ts';
import { exchange, type HttpAnswer, retryAfterMs } from '../web/http.ts';
import { checkServer, keyFor } from '../web/operator-lists.ts';
import { ServiceUnavailable } from '../web/service-unavailable.ts';
import { EventStream } from './event-stream.ts';
import { isRequest, type Json, line, messagesIn, type Outcome, outcomeOf, reply } from './messages.ts';
import { type McpHttpServer, serverText } from './server.ts';

export const MOST_ANSWER_BYTES = 4 << 20;
/** Requests of the server's own that are answered while one request waits. */
const MOST_REPLIES = 20;
const REPLY_MS = 3000;
/** Statuses with which a server refuses what is asked. */
const OF_REQUEST = [400, 413, 414, 422];
/** Notifies a server that nobody waits for an answer any more. */
const CANCEL_MS = 1000;
/** Statuses that pass. */
const PASSES = [408, 429];

/** A server as an attempt asks it. */
export interface McpPeer {
  readonly name: string;
  readonly spec: McpHttpServer;
  readonly signal: AbortSignal;
}

/** What a server gave to a request. */
export type HttpAnswered =
  | (Outcome & { readonly session: string | undefined })
  /** The session is not known to the server any more, so the request was not answered. */
  | { readonly kind: 'forgotten' }
  /** What is asked is at fault, by the status. */
  | { readonly kind: 'refused'; readonly status: number }
  /** The answer is longer, or nested deeper, than can be read. */
  | { readonly kind: 'too-long' };

interface Posted {
  readonly answer: HttpAnswer;
  readonly text: string;
}

export class HttpTransport {
  readonly #peer: McpPeer;
  readonly #url: URL;
  readonly #session: McpSession | undefined;
  #key = '';

  /** `session`: as the server gave it; absent before `initialize`. */
  constructor(peer: McpPeer, session?: McpSession) {
    this.#peer = peer;
    this.#url = new URL(peer.spec.url);
    this.#session = session;
  }

  /**
   * Sends a request and waits for its answer. Errors: `ServiceUnavailable` if there is none that the protocol has;
   * `UserInputError` if the operator does not allow the address; the reason of `signal`.
   */
  async request(method: string, params: Json, timeoutMs: number): Promise<HttpAnswered> {
    // Of its own for each request: a repeated call is another request in the same session.
    const id = randomUUID();
    const events = new EventStream();
    const received: Json[] = [];
    const nonsense: string[] = [];
    const replies: Array<Promise<unknown>> = [];
    const take = (given: string): boolean => {
      const text = this.#withoutKey(given);
      // Some servers begin with an empty event.
      if (text.trim() === '') return false;
      const messages = messagesIn(text);
      if (messages === undefined) nonsense.push(text.slice(0, 100));
      for (const message of messages ?? []) {
        if (isRequest(message) && replies.length < MOST_REPLIES)
          replies.push(this.#post(reply(message), Math.min(timeoutMs, REPLY_MS)).catch(() => undefined));
        else if (message['id'] === id && message['method'] === undefined) received.push(message);
      }
      return received.length > 0 || nonsense.length > 0;
    };
    // A server may keep its stream open after the answer.
    const isEnough = (part: Buffer, headers: HttpAnswer['headers']): boolean =>
      isEvents(headers) && events.add(part).map(take).some(Boolean);
    const posted = await this.#post(line({ id, method, params }), timeoutMs, isEnough).catch(async (error: unknown) => {
      if (error instanceof ServiceUnavailable && error.kind === 'timeout' && !error.unsent) await this.#cancel(id);
      throw error;
    });
    if (posted === 'too-long') return { kind: 'too-long' };
    const { answer, text } = posted;
    const stopped = this.#stopped(answer, text, method);
    if (stopped !== undefined) return stopped;
    if (received.length === 0 && nonsense.length === 0) {
      if (answer.isCut) return { kind: 'too-long' };
      if (!isEvents(answer.headers)) take(text);
      else {
        const isRead = answer.headers['content-encoding'] === undefined;
        for (const data of [...(isRead ? [] : events.add(answer.bytes)), ...events.end()]) take(data);
      }
    }
    await Promise.all(replies);
    const [found] = received;
    if (found === undefined) {
      const [shown] = nonsense;
      const what = shown === undefined ? 'nothing' : `what is no JSON-RPC message (${JSON.stringify(shown)})`;
      throw this.unavailable('answer', `answered ${method} with ${what}`);
    }
    const session = answer.headers['mcp-session-id'];
    const outcome = outcomeOf(found);
    if (outcome === undefined) {
      if (isDeep(found)) return { kind: 'too-long' };
      throw this.unavailable('answer', `answered ${method} without a result`);
    }
    return { ...outcome, session: Array.isArray(session) ? session[0] : session };
  }

  /** Sends a message that has no answer. Errors: those of `request`. */
  async notify(message: string, timeoutMs: number): Promise<void> {
    const posted = await this.#post(message, timeoutMs);
    if (posted === 'too-long') return;
    const { status } = posted.answer;
    if (status < 200 || status >= 300) throw this.#refusal(posted.answer, 'a notification');
  }

  unavailable(
    kind: ServiceUnavailable['kind'],
    what: string,
    details: ConstructorParameters<typeof ServiceUnavailable>[2] = {},
  ): ServiceUnavailable {
    return new ServiceUnavailable(kind, `${serverText(this.#peer.name, this.#peer.spec)} ${what}`, details);
  }

  async #post(
    body: string,
    timeoutMs: number,
    isEnough?: (part: Buffer, headers: HttpAnswer['headers']) => boolean,
  ): Promise<Posted | 'too-long'> {
    const { name, signal } = this.#peer;
    checkServer(`mcp.${name}.url`, this.#url);
    this.#key = this.#keyToSend();
    const { id, revision } = this.#session ?? {};
    const headers = {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'accept-encoding': 'identity',
      ...(this.#key !== '' && { authorization: `Bearer ${this.#key}` }),
      ...(id !== undefined && { 'mcp-session-id': id }),
      ...(revision !== undefined && { 'mcp-protocol-version': revision }),
    };
    const asked = { url: this.#url, method: 'POST', headers, body, maxBytes: MOST_ANSWER_BYTES, timeoutMs } as const;
    try {
      const answer = await exchange({ ...asked, signal, lookup: guardedLookup, ...(isEnough && { isEnough }) });
      return { answer, text: answer.bytes.toString('utf8') };
    } catch (error) {
      // A name that leads to an address that is never asked.
      if (error instanceof EndpointError)
        throw new UserInputError(`mcp.${name}.url`, this.#url.href, error.message, { cause: error });
      if (!(error instanceof ServiceUnavailable)) throw error;
      if ((error.cause as NodeJS.ErrnoException | undefined)?.code === 'ERR_BUFFER_TOO_LARGE') return 'too-long';
      const { kind, message, unsent, cause } = error;
      throw this.unavailable(kind, `gives no answer: ${message}`, { unsent, cause });
    }
  }

  /** What the status alone says. Errors: `ServiceUnavailable`. */
  #stopped(answer: HttpAnswer, text: string, method: string): HttpAnswered | undefined {
    const { status } = answer;
    if (status >= 200 && status < 300) return undefined;
    const [said] = OF_REQUEST.includes(status) ? (messagesIn(this.#withoutKey(text)) ?? []) : [];
    const isKnown = this.#session?.id !== undefined;
    if (isKnown && (status === 404 || (status === 400 && said !== undefined && refusesSession(said))))
      return { kind: 'forgotten' };
    if (OF_REQUEST.includes(status)) {
      const outcome = said && outcomeOf(said);
      return outcome?.kind === 'error' ? { ...outcome, session: undefined } : { kind: 'refused', status };
    }
    throw this.#refusal(answer, method);
  }

  #refusal({ status, headers }: HttpAnswer, method: string): ServiceUnavailable {
    if (status === 401 || status === 403) {
      const { key } = this.#peer.spec;
      const what = key === undefined ? 'wants a key: name its variable as key' : `refuses the key ${key}`;
      return this.unavailable('key', `${what} (status ${status})`, { status, unsent: true });
    }
    if (status >= 300 && status < 400)
      return this.unavailable(
        'client',
        `sends to another address (status ${status}), which is not followed: give that address as url`,
        { status, unsent: true },
      );
    const after = retryAfterMs(headers);
    const kind = status >= 500 || PASSES.includes(status) ? 'server' : 'client';
    return this.unavailable(kind, `answered ${method} with status ${status}`, {
      status,
      unsent: status < 500,
      ...(after !== undefined && { retryAfterMs: after }),
    });
  }

  /** Errors: `ServiceUnavailable` if this worker has no such key for this address. */
  #keyToSend(): string {
    const { key } = this.#peer.spec;
    try {
      return key === undefined ? '' : keyFor(key, this.#url);
    } catch (error) {
      throw this.unavailable('key', `cannot be asked: ${(error as Error).message}`, { unsent: true });
    }
  }

  /** A server may send back what it was sent. */
  #withoutKey(text: string): string {
    if (this.#key === '') return text;
    const forms = [this.#key, JSON.stringify(this.#key).slice(1, -1)];
    return forms.reduce((rest, form) => rest.replaceAll(form, `[key ${this.#peer.spec.key}]`), text);
  }

  /** Whether the server reads it or not changes nothing. */
  async #cancel(requestId: string): Promise<void> {
    const cancelled = line({ method: 'notifications/cancelled', params: { requestId, reason: 'timed out' } });
    await this.#post(cancelled, CANCEL_MS).catch(() => undefined);
  }
}

/**
 * The protocol has 404 for a session that is not known. Servers made from an example of the official SDK answer 400
 * with an error of their transport, which belongs to no request: no argument of a call can bring it about.
 */
function refusesSession({ id, error }: Json): boolean {
  const { code, message } = (isObject(error) ? error : {}) as Json;
  return (
    (id ?? null) === null && code === -32_000 && /\bsession\b|\bnot initialized\b/iu.test(String(message).slice(0, 500))
  );
}

function isEvents(headers: HttpAnswer['headers']): boolean {
  return /^\s*text\/event-stream\b/iu.test(headers['content-type'] ?? '');
}
