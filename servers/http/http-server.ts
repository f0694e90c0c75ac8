/**
 * The part that all servers of Longhaul share: it listens, gives each request an id and a signal, answers health
 * checks, admits callers, writes refusals in the clients' format, and stops within a deadline. Routes are Hono's.
 */

import { getRequestListener, type HttpBindings } from '@hono/node-server';
import { type Context, Hono } from 'hono';
import { methodNotAllowed } from 'hono/method-not-allowed';
import { requestId } from 'hono/request-id';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type CallerRequest, checkCaller, checkHost, Slots } from './admission.ts';
import { ApiError, type ErrorDialect } from './api-error.ts';
import { type BodyLimits, BodyReader } from './read-body.ts';

export interface HttpLimits extends BodyLimits {
  /** Number of running answers; further requests get status 429. */
  readonly maxRequests: number;
  /** Time limit of one answer, from the start of its request. In seconds. */
  readonly timeoutSeconds: number;
  /** How long a caller may read nothing of an answer that waits for it. In seconds. */
  readonly unreadSeconds: number;
}

export const DEFAULT_LIMITS: HttpLimits = {
  maxRequests: 256,
  timeoutSeconds: 600,
  unreadSeconds: 60,
  maxBodyBytes: 16 * 2 ** 20,
  bodySeconds: 20,
  bodyBudgetBytes: 64 * 2 ** 20,
};

export interface HttpServerOptions {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  /** If absent, only requests to a loopback host name are answered. */
  readonly apiKey?: string;
  readonly limits?: Partial<HttpLimits>;
  /** Admits a caller, or throws `ApiError`; instead of `apiKey` and the loopback names. */
  readonly admit?: (request: CallerRequest) => void;
  /** Paths that answer health checks beside `/health`. */
  readonly healthPaths?: readonly string[];
  /** Receives errors that are not the request's fault, with the request's id. */
  readonly onFailure?: (error: unknown, requestId: string) => void;
}

export interface HttpEnv {
  Bindings: HttpBindings;
  Variables: { requestId: string };
}
export type HttpContext = Context<HttpEnv>;

/** A server-sent event: its name, if it has one, and its line of data. */
export interface SentEvent {
  readonly event?: string | undefined;
  readonly data: string;
}
type SendEvent = (event: SentEvent) => void;

export class HttpServer {
  /** Routes added here answer admitted callers once the server is open. */
  readonly app = new Hono<HttpEnv>();
  readonly slots: Slots;
  readonly bodies: BodyReader;
  readonly #options: HttpServerOptions;
  readonly #limits: HttpLimits;
  readonly #errors: ErrorDialect;
  readonly #server: Server;
  readonly #underWay = new Map<ServerResponse, AbortController>();
  #state: 'starting' | 'ok' | 'draining' = 'starting';
  #answered = 0;

  constructor(options: HttpServerOptions, errors: ErrorDialect) {
    this.#options = options;
    this.#errors = errors;
    this.#limits = { ...DEFAULT_LIMITS, ...options.limits };
    this.slots = new Slots(this.#limits.maxRequests);
    this.bodies = new BodyReader(this.#limits);
    this.#route();
    const listener = getRequestListener(this.app.fetch, {
      overrideGlobalObjects: false,
      hostname: options.host,
      // An invalid host or target.
      errorHandler: (error) => {
        const refused = new ApiError(400, `the request cannot be read: ${(error as Error).message}`);
        return Response.json(this.#errors.bodyOf(refused, { path: '', requestId: '', headers: {} }), { status: 400 });
      },
    });
    const answer = (request: IncomingMessage, response: ServerResponse): void => {
      const gone = new AbortController();
      this.#underWay.set(response, gone);
      // Fires when nothing was sent for so long. Callers that read nothing would fill the memory with their answers.
      response.setTimeout(this.#limits.unreadSeconds * 1000, () => {
        if (request.socket.writableLength > 0) request.socket.destroy();
      });
      response.on('close', () => {
        // No caller needs to learn of an answer's own end, and an exception takes its time for a call stack.
        if (!response.writableFinished) gone.abort(new DOMException('the caller closed the connection', 'AbortError'));
        this.#underWay.delete(response);
        this.#answered += 1;
        if (this.#state === 'draining') this.#server.closeIdleConnections();
      });
      void listener(request, response);
    };
    this.#server = createServer({ requestTimeout: 60_000, headersTimeout: 20_000 }, answer);
    // A caller that waits for leave to send a body is refused at once, if its size says so.
    this.#server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
      if (Number(request.headers['content-length'] ?? 0) > this.#limits.maxBodyBytes) response.shouldKeepAlive = false;
      else response.writeContinue();
      answer(request, response);
    });
  }

  /**
   * Starts to listen. Until `open`, all paths except `/health` get 503. Errors: those of listening, such as
   * `EADDRINUSE`.
   */
  async start(): Promise<void> {
    const { host, port } = this.#options;
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen({ port, host }, () => resolve());
    });
  }

  open(): void {
    if (this.#state === 'starting') this.#state = 'ok';
  }

  get url(): string {
    const { address, family, port } = this.#server.address() as AddressInfo;
    return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`;
  }

  /** Number of answered requests, including refusals. */
  get answered(): number {
    return this.#answered;
  }

  /**
   * Aborts when the caller closes the connection, when the answer takes too long, and when the server stops running
   * answers.
   */
  signalOf({ env }: HttpContext): AbortSignal {
    const deadline = AbortSignal.timeout(this.#limits.timeoutSeconds * 1000);
    const gone = this.#underWay.get(env.outgoing)?.signal;
    return gone ? AbortSignal.any([gone, deadline]) : AbortSignal.abort();
  }

  /**
   * Server-sent events while `produce` runs. Headers are sent with the first event, so that an earlier refusal has its
   * own status. A later refusal is the stream's last events. Errors: those of `produce` before its first event.
   */
  async events(
    c: HttpContext,
    produce: (send: SendEvent) => Promise<void>,
    failureEvents: (refused: ApiError) => readonly SentEvent[],
  ): Promise<Response> {
    const first = Promise.withResolvers<undefined>();
    const encoder = new TextEncoder();
    let isWanted = true;
    let begun = false;
    const stream = new ReadableStream<Uint8Array>({
      start: (controller) => {
        const send: SendEvent = ({ event, data }) => {
          begun = true;
          first.resolve(undefined);
          const name = event === undefined ? '' : `event: ${event}\n`;
          if (isWanted) controller.enqueue(encoder.encode(`${name}data: ${data}\n\n`));
        };
        produce(send)
          .catch((error: unknown) => {
            if (!begun) throw error;
            failureEvents(this.#refusalOf(error, c)).forEach(send);
          })
          .then(() => isWanted && controller.close(), first.reject);
      },
      cancel: () => {
        isWanted = false;
      },
    });
    await first.promise;
    return c.body(stream, 200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  }

  /** Refuses new requests. Running requests have `graceMs` milliseconds to finish, then they are cut off. */
  async close(graceMs: number): Promise<void> {
    this.#state = 'draining';
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeIdleConnections();
    const cut = setTimeout(() => {
      for (const one of this.#underWay.values()) one.abort(new ApiError(503, 'the server is stopping'));
      this.#server.closeAllConnections();
    }, graceMs);
    await closed;
    clearTimeout(cut);
  }

  #route(): void {
    const { app } = this;
    app.use(requestId());
    app.use(async (c, next) => {
      if (this.#state === 'draining') c.header('connection', 'close');
      checkHost(c.env.incoming);
      await next();
    });
    for (const path of ['/health', ...(this.#options.healthPaths ?? [])])
      app.all(path, (c) => c.json({ status: this.#state }, this.#state === 'ok' ? 200 : 503));
    app.use(async ({ env }, next) => {
      const { admit, apiKey } = this.#options;
      if (admit) admit(env.incoming);
      else checkCaller(env.incoming, apiKey);
      if (this.#state === 'draining') throw new ApiError(503, 'the server is stopping', { retryAfterSeconds: 5 });
      if (this.#state === 'starting')
        throw new ApiError(503, 'the server is still starting: retry later', {
          code: 'starting',
          retryAfterSeconds: 1,
        });
      await next();
    });
    app.use(
      methodNotAllowed({
        app,
        onMethodNotAllowed: (c, methods) => {
          c.header('allow', methods.join(', '));
          return this.#refuse(c, new ApiError(405, `${c.req.path} takes ${methods.join(', ')}`));
        },
      }),
    );
    app.notFound((c) => this.#refuse(c, new ApiError(404, `${c.req.path} does not exist`)));
    app.onError((error, c) => this.#refuse(c, this.#refusalOf(error, c)));
  }

  #refusalOf(error: unknown, c: HttpContext): ApiError {
    const refused = this.#errors.refusalOf(error);
    const isGone = this.#underWay.get(c.env.outgoing)?.signal.aborted ?? true;
    if (!(error instanceof ApiError) && refused.status === 500 && !isGone)
      this.#options.onFailure?.(error, c.get('requestId'));
    return refused;
  }

  #refuse(c: HttpContext, error: ApiError): Response {
    const headers = error.retryAfterSeconds === undefined ? {} : { 'retry-after': String(error.retryAfterSeconds) };
    const { headers: given } = c.env.incoming;
    const body = this.#errors.bodyOf(error, { path: c.req.path, requestId: c.get('requestId'), headers: given });
    return c.json(body, error.status as ContentfulStatusCode, headers);
  }
}
