/** A real HTTP server on loopback that answers by a function, and writes down what it was asked. */

import { createServer, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Asked {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Record<string, unknown>;
}

export interface Answer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** An object is sent as JSON. */
  readonly body: unknown;
}

/** `signal` aborts when the caller has hung up. `null`: the connection is cut without an answer. */
export type Handler = (asked: Asked, signal: AbortSignal) => Promise<Answer | null> | Answer | null;

export interface LoopbackServer {
  /** With `/v1`. */
  readonly baseUrl: string;
  readonly asked: Asked[];
  /** Requests whose caller hung up before the answer. */
  readonly hungUp: string[];
  handler: Handler;
  close(): Promise<void>;
}

async function bodyOf(request: IncomingMessage): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString();
  return text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
}

export async function startLoopback(handler: Handler): Promise<LoopbackServer> {
  const asked: Asked[] = [];
  const hungUp: string[] = [];
  const server = createServer((request, response) => {
    const gone = new AbortController();
    response.on('close', () => {
      if (response.writableEnded) return;
      hungUp.push(request.url ?? '');
      gone.abort();
    });
    void (async () => {
      const one = { path: request.url ?? '', headers: request.headers, body: await bodyOf(request) };
      asked.push(one);
      const answer = await loopback.handler(one, gone.signal);
      if (!answer) {
        request.socket.destroy();
        return;
      }
      const { status = 200, headers = {}, body } = answer;
      const text = typeof body === 'string' ? body : JSON.stringify(body);
      response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(text);
    })().catch(() => request.socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const loopback: LoopbackServer = {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    asked,
    hungUp,
    handler,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return loopback;
}
