/**
 * OpenAI's and Anthropic's APIs over HTTP for one policy. Until the policy is loaded, the server listens and answers
 * 503.
 */

import { type HttpContext, HttpServer, type HttpServerOptions } from '../http/http-server.ts';
import type { ResponseItem } from '../apis/responses-items.ts';
import type { ApiEvent } from '../apis/chat.ts';
import { ApiError } from '../http/api-error.ts';
import type { ChatModel } from './answer-turn.ts';
import { API_ERRORS } from './api-error.ts';
import {
  type Answerable,
  listAnthropicModels,
  listModels,
  replyTo,
  retrieveAnthropicModel,
  retrieveModel,
} from './api.ts';
import { type Prepared, prepareRequest, type RequestKind } from './prepare-request.ts';
import { PromptThread } from './prompt-thread.ts';
import { ResponseMemory } from './response-memory.ts';

export interface ApiServerOptions extends HttpServerOptions {
  /** If absent, call `open` later. */
  readonly model?: ChatModel;
}

/** Longer bodies are prepared in a thread. A body of this size takes about 50 ms to encode. */
const SHORT_BYTES = 16 * 2 ** 10;

/** The versions of Anthropic's API that are served. They differ here in nothing. */
const ANTHROPIC_VERSIONS = ['2026-10-21', '2023-06-01'];

const isAnthropic = (c: HttpContext): boolean => c.req.header('anthropic-version') !== undefined;

/** Errors: `ApiError` 400 for another version. */
function checkVersion(c: HttpContext): void {
  const version = c.req.header('anthropic-version');
  if (version !== undefined && !ANTHROPIC_VERSIONS.includes(version))
    throw new ApiError(
      400,
      `anthropic-version: ${version.slice(0, 80)} is not known here; send ${ANTHROPIC_VERSIONS.join(' or ')}`,
    );
}

/** Errors: `ApiError` 415 for a body that is compressed (RFC 9110 15.5.16). */
function checkEncoding(c: HttpContext): void {
  const encoding = c.req.header('content-encoding')?.trim().toLowerCase() ?? '';
  if (encoding === '' || encoding === 'identity') return;
  c.header('accept-encoding', 'identity');
  throw new ApiError(415, `content-encoding: ${encoding.slice(0, 80)} is not read here; send the body without one`);
}

const sent = ({ event, data }: ApiEvent) => ({ event, data: JSON.stringify(data) });

interface Served {
  readonly model: ChatModel;
  readonly thread: PromptThread;
}

export class ApiServer {
  readonly #http: HttpServer;
  readonly #responses = new ResponseMemory();
  #served: Served | undefined;

  private constructor(options: HttpServerOptions) {
    this.#http = new HttpServer(options, API_ERRORS);
    const { app } = this.#http;
    for (const path of ['/v1/models', '/v1/models/*', '/v1/messages/*'])
      app.use(path, async (c, next) => {
        checkVersion(c);
        await next();
      });
    app.get('/v1/models', (c) => c.json((isAnthropic(c) ? listAnthropicModels : listModels)(this.#open.model)));
    app.get('/v1/models/:id{.+}', (c) =>
      c.json((isAnthropic(c) ? retrieveAnthropicModel : retrieveModel)(c.req.param('id'), this.#open.model)),
    );
    app.post('/v1/completions', (c) => this.#answer(c, 'completion'));
    app.post('/v1/chat/completions', (c) => this.#answer(c, 'chat'));
    app.post('/v1/responses', (c) => this.#answer(c, 'response'));
    app.get('/v1/responses/:id', (c) => c.json(this.#responses.retrieve(c.req.param('id'))));
    app.delete('/v1/responses/:id', (c) => c.json(this.#responses.delete(c.req.param('id'))));
    app.post('/v1/messages', (c) => this.#answer(c, 'message'));
    app.post('/v1/messages/count_tokens', (c) => this.#answer(c, 'count'));
  }

  /** Errors: those of listening, such as `EADDRINUSE`. */
  static async start({ model, ...options }: ApiServerOptions): Promise<ApiServer> {
    const api = new ApiServer(options);
    await api.#http.start();
    if (model) api.open(model);
    return api;
  }

  open(model: ChatModel): void {
    const { name, contextTokens, policy } = model;
    this.#served = { model, thread: new PromptThread({ dir: policy.dir, name, contextTokens }) };
    this.#http.open();
  }

  /** The base URL for clients. */
  get baseUrl(): string {
    return `${this.#http.url}/v1`;
  }

  /** Number of answered requests, including refusals. */
  get answered(): number {
    return this.#http.answered;
  }

  /** Refuses new requests. Running requests have `graceMs` milliseconds to finish, then they are cut off. */
  async close(graceMs: number): Promise<void> {
    await this.#http.close(graceMs);
    await this.#served?.thread.close();
  }

  get #open(): Served {
    if (this.#served === undefined) throw new Error('the server is open without a model');
    return this.#served;
  }

  async #answer(c: HttpContext, kind: RequestKind): Promise<Response> {
    const { slots, bodies } = this.#http;
    const { model } = this.#open;
    const signal = this.#http.signalOf(c);
    slots.check();
    checkEncoding(c);
    const prepared = await bodies.use(c.env.incoming, (body) => this.#prepare(kind, body, signal));
    const reply = replyTo(prepared, model, signal, this.#responses);
    if ('body' in reply) return c.json(await slots.hold(reply.body));
    return this.#http.events(
      c,
      async (send) => {
        await slots.hold(() => reply.stream((event) => send(sent(event))));
        if (reply.last !== undefined) send({ data: reply.last });
      },
      (refused) => reply.failed(refused).map(sent),
    );
  }

  /** Errors: `ApiError`; the signal's reason. */
  async #prepare(kind: RequestKind, body: Buffer, signal: AbortSignal): Promise<Answerable> {
    const { model, thread } = this.#open;
    const prepare = async (earlier?: readonly ResponseItem[]): Promise<Prepared> =>
      body.length + (earlier ? earlier.length * 100 : 0) > SHORT_BYTES
        ? thread.prepare({ kind, body, earlier }, signal)
        : prepareRequest(kind, body, model, earlier);
    const prepared = await prepare();
    if (prepared.kind !== 'continues') return prepared;
    const kept = this.#responses.get(prepared.response);
    const again = kept && (await prepare(kept.items));
    if (again !== undefined && again.kind !== 'continues') return again;
    const id = JSON.stringify(prepared.response.slice(0, 80));
    throw new ApiError(400, `Previous response with id ${id} not found.`, {
      param: 'previous_response_id',
      code: 'previous_response_not_found',
    });
  }
}
