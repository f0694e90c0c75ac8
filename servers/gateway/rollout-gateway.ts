/**
 * The gateway of one attempt: checks the key, limits the rate, stores each call before its rollout receives it, and
 * answers with the recorded turn. Whichever gateway answers a call, and however often, the answer has the same bytes.
 */

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { CALLS_AT_ONCE, type CallRecord, type GatewayKeyRecord, type ModelCall } from '../../protocol/gateway.ts';
import type { GenerateRecord } from '../../protocol/records.ts';
import { attemptKey, keys } from '../../protocol/record-keys.ts';
import type { Attempt } from '../../protocol/stages.ts';
import type { Store } from '../../store/store.ts';
import { ApiError } from '../http/api-error.ts';
import { errorBody } from '../openai/api-error.ts';
import { messagesError } from '../apis/messages-answer.ts';
import { type AskedCall, readChatCall } from './chat-api.ts';
import type { GatewayRequest, GatewayResponse } from './http-message.ts';
import { readMessagesCall, readResponsesCall } from './other-apis.ts';
import { type CallClient, sendCall } from './send-call.ts';

export interface GatewayDeps {
  readonly store: Store;
  readonly client: CallClient;
}

export type CallingAttempt = Pick<Attempt, 'rollout' | 'attempt' | 'run' | 'task'>;

/** The model's name. Requests for other names are answered too: agents rewrite names. */
export const MODEL_NAME = 'policy';

/** Requests of one rollout that may wait or be answered at once, and a second. */
const MOST_WAITING = 64;
const PER_SECOND = 20;
const BURST = 100;
/** Milliseconds of reading that count as one request more. */
const MS_PER_REQUEST = 10;
/** Characters of an answer, beside what was sampled. */
const MOST_ANSWER = 1 << 20;
/** Codes of refusals that every later call would get too. */
const FINAL: ReadonlySet<string> = new Set(['insufficient_quota', 'rollout_over']);
/** How long a call waits while the store fails, and for its next try. */
const UNAVAILABLE_MS = 10 * 60_000;
const RETRY_MS = 1_000;

/** The key of an attempt, made once. It names the attempt, so that a gateway of many rollouts finds it. */
export async function gatewayKey({ rollout, attempt }: CallingAttempt, store: Store): Promise<string> {
  const name = Buffer.from(JSON.stringify([rollout, attempt])).toString('base64url');
  const made: GatewayKeyRecord = { key: `lh-${name}.${randomBytes(24).toString('base64url')}` };
  return (await store.putOnce(keys.gatewayKey({ rollout, attempt }), made)).key;
}

const digestOf = (text: string): Buffer => createHash('sha256').update(text).digest();

/** The key that a request carries, as OpenAI's or Anthropic's clients send it. */
export function keyIn({ headers }: Pick<GatewayRequest, 'headers'>): string {
  return /^Bearer (\S+)$/iu.exec(headers.get('authorization') ?? '')?.[1] ?? headers.get('x-api-key') ?? '';
}

const json = (status: number, body: string, headers: Readonly<Record<string, string>> = {}): GatewayResponse => ({
  status,
  headers: { 'content-type': 'application/json', ...headers },
  body,
});

/** The APIs that are answered, by their paths below `/v1`. */
const APIS: Readonly<Record<string, (body: Uint8Array) => AskedCall>> = {
  '/chat/completions': readChatCall,
  '/responses': readResponsesCall,
  '/messages': readMessagesCall,
};
const MESSAGES = '/messages';

/** Without the version, which some libraries leave out. */
const placeOf = (path: string): string => path.replace(/\/+$/u, '').replace(/^\/v1(?=\/)/u, '');

/**
 * An error in the form of the API at `path`: OpenAI's, or Anthropic's. `x-should-retry`: OpenAI's and Anthropic's
 * libraries obey it.
 */
export function refusalResponse(error: unknown, path = ''): GatewayResponse {
  const refused =
    error instanceof ApiError ? error : new ApiError(503, 'the gateway cannot answer now', { retryAfterSeconds: 1 });
  const body = placeOf(path) === MESSAGES ? messagesError(refused) : errorBody(refused);
  const retries = refused.status >= 500 || (refused.status === 429 && refused.code !== 'insufficient_quota');
  return json(refused.status, JSON.stringify(body), {
    'x-should-retry': String(retries),
    ...(refused.retryAfterSeconds !== undefined && { 'retry-after': String(refused.retryAfterSeconds) }),
  });
}

export class RolloutGateway {
  readonly #attempt: CallingAttempt;
  readonly #key: string;
  readonly #deps: GatewayDeps;
  /** Ends one by one as calls are answered. */
  readonly #sending = new Set<Promise<unknown>>();
  /** Why the rollout takes no further call: it is not asked again, and what is sent is not stored. */
  #over: ApiError | undefined;
  #waiting = 0;
  #allowance = BURST;
  #counted = Date.now();

  constructor(attempt: CallingAttempt, key: string, deps: GatewayDeps) {
    this.#attempt = attempt;
    this.#key = key;
    this.#deps = deps;
  }

  static async open(attempt: CallingAttempt, deps: GatewayDeps): Promise<RolloutGateway> {
    return new RolloutGateway(attempt, await gatewayKey(attempt, deps.store), deps);
  }

  get key(): string {
    return this.#key;
  }

  /**
   * `call` names the request in its attempt. `gone`: the caller is gone; a call that its rollout has not received is
   * dropped then. Errors: the signals' reasons.
   */
  async answer(
    call: string,
    request: GatewayRequest,
    signal: AbortSignal,
    gone: AbortSignal = signal,
  ): Promise<GatewayResponse> {
    let asked: AskedCall | GatewayResponse;
    try {
      this.#admit(request);
      asked = this.#read(request);
    } catch (error) {
      return refusalResponse(error, request.path);
    }
    for (const until = Date.now() + UNAVAILABLE_MS; ;) {
      try {
        return 'status' in asked ? asked : await this.#waited(call, asked, signal, gone);
      } catch (error) {
        signal.throwIfAborted();
        gone.throwIfAborted();
        // A store that fails is not the program's doing: it waits.
        if (error instanceof ApiError || Date.now() > until) return refusalResponse(error, request.path);
        await sleep(RETRY_MS, undefined, { signal });
      }
    }
  }

  /** Errors: `ApiError`. */
  #admit(request: GatewayRequest): void {
    const now = Date.now();
    this.#allowance = Math.min(BURST, this.#allowance + ((now - this.#counted) * PER_SECOND) / 1000);
    this.#counted = now;
    const busy = { code: 'rate_limit_exceeded', retryAfterSeconds: 1 };
    if (this.#allowance < 1) throw new ApiError(429, `at most ${PER_SECOND} requests a second are answered`, busy);
    this.#allowance -= 1;
    if (!timingSafeEqual(digestOf(keyIn(request)), digestOf(this.#key)))
      throw new ApiError(401, 'a valid key is required: send Authorization: Bearer $OPENAI_API_KEY', {
        code: 'invalid_api_key',
      });
    if (this.#waiting >= MOST_WAITING) throw new ApiError(429, `at most ${MOST_WAITING} calls may wait`, busy);
  }

  /**
   * What is asked, or its answer if no call is needed. Reading counts as requests do, by its time. Errors: `ApiError`.
   */
  #read({ method, path, body }: GatewayRequest): AskedCall | GatewayResponse {
    const at = placeOf(path);
    const api = Object.hasOwn(APIS, at) ? APIS[at] : undefined;
    const isList = at === '/models' || /^\/models\/[\w.:@%-]+$/u.test(at);
    if (api === undefined && !isList) throw new ApiError(404, `${path.slice(0, 200)} does not exist`);
    const allowed = isList ? 'GET' : 'POST';
    if (method !== allowed) throw new ApiError(405, `${path.slice(0, 200)} takes ${allowed}`);
    if (api === undefined) return json(200, modelsBody(at));
    const since = performance.now();
    try {
      return api(body);
    } finally {
      this.#allowance -= (performance.now() - since) / MS_PER_REQUEST;
    }
  }

  async #waited(call: string, asked: AskedCall, signal: AbortSignal, gone: AbortSignal): Promise<GatewayResponse> {
    this.#waiting += 1;
    try {
      return await this.#call(call, asked, signal, gone);
    } finally {
      this.#waiting -= 1;
    }
  }

  async #call(call: string, asked: AskedCall, signal: AbortSignal, gone: AbortSignal): Promise<GatewayResponse> {
    const { turn, record, at } = await this.#turnOf(call, asked, signal, gone);
    const refused = record.call?.refused;
    const param = refused?.code === 'unsupported_stop' ? 'stop' : 'messages';
    if (refused) throw new ApiError(400, refused.message, { code: refused.code, param });
    const id = digestOf(`${attemptKey(this.#attempt)}/${turn}`)
      .toString('hex')
      .slice(0, 24);
    const { contentType, body } = asked.answer({ turn, record, at, id });
    // An event stream has the sampled text several times, and what is refused is what the request made of the rest.
    const said = JSON.stringify(record.parsed).length;
    if (body.length > MOST_ANSWER + 8 * said)
      throw new ApiError(
        400,
        `the answer would repeat more than ${MOST_ANSWER} characters of its request: send shorter tools`,
      );
    return { status: 200, headers: { 'content-type': contentType, 'cache-control': 'no-cache' }, body };
  }

  /** The call's turn, once it is on record. Errors: `ApiError`. */
  async #turnOf(
    call: string,
    { request, asked }: AskedCall,
    signal: AbortSignal,
    gone: AbortSignal,
  ): Promise<{ readonly turn: number; readonly record: GenerateRecord; readonly at: string }> {
    const { store, client } = this.#deps;
    const { rollout, attempt } = this.#attempt;
    const now = new Date().toISOString();
    const key = keys.call({ rollout, attempt }, call);
    const before = await store.get<CallRecord>(key);
    // A call that a gateway before this one stored may have a turn, whatever later calls were answered.
    if (before === undefined && this.#over) throw this.#over;
    const stored =
      before ??
      (await store.putOnceWithObject<CallRecord>(key, Buffer.from(JSON.stringify(request)), (artifact) => ({
        artifact,
        asked,
        at: now,
      })));
    if (stored.asked !== asked) throw new ApiError(400, 'the name of this call belongs to another request');
    const known = before && (await this.#recorded(call));
    if (known) return { ...known, at: stored.at };
    const turn = await this.#inTurn(gone, () => this.#send({ attempt, call, asked }, client, signal));
    const record = await store.get<GenerateRecord>(keys.generate(this.#attempt, turn));
    if (record === undefined) throw new ApiError(503, 'the turn is not on record', { retryAfterSeconds: 1 });
    return { turn, record, at: stored.at };
  }

  async #send(call: ModelCall, client: CallClient, signal: AbortSignal): Promise<number> {
    try {
      return await sendCall(client, this.#attempt.rollout, call, signal);
    } catch (error) {
      if (error instanceof ApiError && FINAL.has(error.code ?? '')) this.#over = error;
      throw error;
    }
  }

  /** The turn of a call that was answered before, if a history or a gateway before this one knew it. */
  async #recorded(call: string): Promise<{ readonly turn: number; readonly record: GenerateRecord } | undefined> {
    const rows = await this.#deps.store.list<GenerateRecord>(`generate:${attemptKey(this.#attempt)}/`);
    const row = rows.find(({ value }) => value.call?.call === call);
    return row && { turn: Number(row.key.slice(row.key.lastIndexOf('/') + 1)), record: row.value };
  }

  /** At most `CALLS_AT_ONCE` are sent at once: the server refuses more than ten updates of a workflow. */
  async #inTurn<T>(gone: AbortSignal, work: () => Promise<T>): Promise<T> {
    while (this.#sending.size >= CALLS_AT_ONCE) {
      await Promise.race(this.#sending);
      gone.throwIfAborted();
    }
    gone.throwIfAborted();
    const sending = work();
    const over = sending.then(
      () => undefined,
      () => undefined,
    );
    this.#sending.add(over);
    try {
      return await sending;
    } finally {
      this.#sending.delete(over);
    }
  }
}

function modelsBody(path: string): string {
  const card = { id: MODEL_NAME, object: 'model', created: 0, owned_by: 'longhaul' };
  if (path === '/models') return JSON.stringify({ object: 'list', data: [card] });
  return JSON.stringify({ ...card, id: path.slice('/models/'.length).slice(0, 200) });
}
