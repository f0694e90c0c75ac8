/**
 * The API over HTTP: within its limits on size, number and time of requests, behind a token where one is set, and with
 * an end that lets what is under way finish. A caller who hangs up stops what was sampled for it.
 */

import { createHash, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { readWritten } from '../../protocol/written-json.ts';
import { ApiError, asApiError } from './api-error.ts';
import { replyTo } from './api.ts';
import type { ChatModel } from './chat-completions.ts';
import type { Reply } from './reply.ts';

export interface ServerLimits {
  /** Requests at once; further ones are told to come again. */
  readonly maxRequests: number;
  readonly maxBodyBytes: number;
  /** Of one answer, from its request on. */
  readonly timeoutSeconds: number;
}

export const DEFAULT_LIMITS: ServerLimits = { maxRequests: 256, maxBodyBytes: 16 * 2 ** 20, timeoutSeconds: 600 };

export interface ApiServerOptions {
  readonly model: ChatModel;
  readonly host: string;
  /** 0: any that is free. */
  readonly port: number;
  /** Without one, only callers of this machine are answered. */
  readonly apiKey?: string;
  readonly limits?: Partial<ServerLimits>;
  /** Hears of failures that are no request's fault. */
  readonly onFailure?: (error: unknown) => void;
}

const digestOf = (text: string) => createHash('sha256').update(text).digest();

export const LOOPBACK: ReadonlySet<string> = new Set(['127.0.0.1', '::1', 'localhost']);

export class ApiServer {
  readonly #options: ApiServerOptions;
  readonly #limits: ServerLimits;
  readonly #server: Server;
  readonly #underWay = new Set<AbortController>();
  #draining = false;
  #answered = 0;

  private constructor(options: ApiServerOptions) {
    this.#options = options;
    this.#limits = { ...DEFAULT_LIMITS, ...options.limits };
    this.#server = createServer(
      { requestTimeout: 60_000, headersTimeout: 20_000 },
      (request, response) => void this.#serve(request, response),
    );
  }

  /** Errors: those of listening, such as `EADDRINUSE`. */
  static async start(options: ApiServerOptions): Promise<ApiServer> {
    const api = new ApiServer(options);
    await new Promise<void>((resolve, reject) => {
      api.#server.once('error', reject);
      api.#server.listen(options.port, options.host, () => resolve());
    });
    return api;
  }

  /** As clients take it. */
  get baseUrl(): string {
    const { address, family, port } = this.#server.address() as AddressInfo;
    return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}/v1`;
  }

  /** Requests that were answered, refusals included. */
  get answered(): number {
    return this.#answered;
  }

  /** Takes nothing new; what is under way has `graceMs` to finish, and is cut off then. */
  async close(graceMs: number): Promise<void> {
    this.#draining = true;
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeIdleConnections();
    const cut = setTimeout(() => {
      for (const one of this.#underWay) one.abort(new ApiError(503, 'the server ends'));
      this.#server.closeAllConnections();
    }, graceMs);
    await closed;
    clearTimeout(cut);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const gone = new AbortController();
    response.on('close', () => gone.abort(new DOMException('the caller hung up', 'AbortError')));
    try {
      if (this.#draining) response.setHeader('connection', 'close');
      const path = new URL(request.url ?? '/', 'http://server').pathname;
      if (path === '/health')
        return sendJson(response, this.#draining ? 503 : 200, { status: this.#draining ? 'draining' : 'ok' });
      this.#admit(request);
      this.#underWay.add(gone);
      const deadline = AbortSignal.timeout(this.#limits.timeoutSeconds * 1000);
      const signal = AbortSignal.any([gone.signal, deadline]);
      const body = request.method === 'POST' ? await this.#bodyOf(request) : undefined;
      await send(response, replyTo({ method: request.method ?? '', path, body }, this.#options.model, signal));
    } catch (error) {
      if (!response.destroyed) refuse(response, asApiError(error));
      if (!(error instanceof ApiError) && asApiError(error).status === 500 && !gone.signal.aborted)
        this.#options.onFailure?.(error);
    } finally {
      this.#underWay.delete(gone);
      this.#answered += 1;
      if (this.#draining) this.#server.closeIdleConnections();
    }
  }

  /** Errors: `ApiError` where the caller may not come in, or not now. */
  #admit({ headers }: IncomingMessage): void {
    const { apiKey } = this.#options;
    if (apiKey !== undefined) {
      const given = /^Bearer (.+)$/i.exec(headers.authorization ?? '')?.[1] ?? '';
      if (!timingSafeEqual(digestOf(given), digestOf(apiKey)))
        throw new ApiError(401, 'a valid key is needed: Authorization: Bearer KEY', { code: 'invalid_api_key' });
    } else if (!isLoopbackHost(headers.host ?? '')) {
      // A page in a browser of this machine may have had its own name resolved to this address.
      throw new ApiError(403, 'this server answers to loopback names only');
    }
    if (this.#draining) throw new ApiError(503, 'the server ends', { retryAfterSeconds: 5 });
    if (this.#underWay.size >= this.#limits.maxRequests)
      throw new ApiError(429, 'too many requests at once', { code: 'rate_limit_exceeded', retryAfterSeconds: 1 });
  }

  /** Errors: `ApiError` for a body that is too long, or no JSON. */
  async #bodyOf(request: IncomingMessage): Promise<unknown> {
    // What a page of another origin can send without asking is never JSON by its type.
    if (!/^application\/json\b/i.test(request.headers['content-type'] ?? ''))
      throw new ApiError(415, 'content-type: give application/json');
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of request as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > this.#limits.maxBodyBytes)
        throw new ApiError(413, `a request may have ${this.#limits.maxBodyBytes} bytes`);
      chunks.push(chunk);
    }
    try {
      return readWritten(Buffer.concat(chunks).toString('utf8'));
    } catch (error) {
      throw new ApiError(400, `the body is not JSON: ${(error as Error).message}`);
    }
  }
}

function isLoopbackHost(host: string): boolean {
  return LOOPBACK.has(host.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1'));
}

function sendJson(response: ServerResponse, status: number, body: object, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}

async function send(response: ServerResponse, reply: Reply): Promise<void> {
  if ('body' in reply) return sendJson(response, 200, await reply.body());
  // Headers go out with the first chunk: what is refused before it still has its status.
  await reply.stream((chunk) => {
    if (!response.headersSent)
      response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
    response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  });
  response.end('data: [DONE]\n\n');
}

/** Within a stream, the refusal is its last event. */
function refuse(response: ServerResponse, error: ApiError): void {
  if (response.headersSent) {
    response.end(`data: ${JSON.stringify(error.body)}\n\n`);
    return;
  }
  const headers = error.retryAfterSeconds === undefined ? {} : { 'retry-after': String(error.retryAfterSeconds) };
  sendJson(response, error.status, error.body, error.status === 413 ? { ...headers, connection: 'close' } : headers);
}
