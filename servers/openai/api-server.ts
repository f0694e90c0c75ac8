/** OpenAI's API over HTTP for one policy. Until the policy is loaded, the server listens and answers 503. */

import { type HttpContext, HttpServer, type HttpServerOptions } from '../http/http-server.ts';
import { OPENAI_ERRORS } from './api-error.ts';
import { listModels, replyTo, retrieveModel } from './api.ts';
import type { ChatModel } from './chat-completions.ts';
import { type Prepared, prepareRequest, type RequestKind } from './prepare-request.ts';
import { PromptThread } from './prompt-thread.ts';

export interface ApiServerOptions extends HttpServerOptions {
  /** If absent, call `open` later. */
  readonly model?: ChatModel;
}

/** Longer bodies are prepared in a thread. A body of this size takes about 50 ms to encode. */
const SHORT_BYTES = 16 * 2 ** 10;

interface Served {
  readonly model: ChatModel;
  readonly thread: PromptThread;
}

export class ApiServer {
  readonly #http: HttpServer;
  #served: Served | undefined;

  private constructor(options: HttpServerOptions) {
    this.#http = new HttpServer(options, OPENAI_ERRORS);
    const { app } = this.#http;
    app.get('/v1/models', (c) => c.json(listModels(this.#open.model)));
    app.get('/v1/models/:id{.+}', (c) => c.json(retrieveModel(c.req.param('id'), this.#open.model)));
    app.post('/v1/completions', (c) => this.#answer(c, 'completion'));
    app.post('/v1/chat/completions', (c) => this.#answer(c, 'chat'));
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
    const { model, thread } = this.#open;
    const signal = this.#http.signalOf(c);
    slots.check();
    const prepared = await bodies.use(c.env.incoming, async (body): Promise<Prepared> =>
      body.length > SHORT_BYTES ? thread.prepare(kind, body, signal) : prepareRequest(kind, body, model),
    );
    const reply = replyTo(prepared, model, signal);
    if ('body' in reply) return c.json(await slots.hold(reply.body));
    return this.#http.events(c, async (send) => {
      await slots.hold(() => reply.stream((chunk) => send(JSON.stringify(chunk))));
      send('[DONE]');
    });
  }
}
