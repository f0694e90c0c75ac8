/**
 * A small MCP server over HTTP, which keeps a total for each session and misbehaves on request. It refuses what the
 * protocol does not allow: unknown sessions, and requests without the headers that it demands.
 */

import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

type Json = Record<string, unknown>;
const object = (properties: Json, required: string[] = []): Json => ({ type: 'object', properties, required });
/** As a server lists them. */
export const TOOLS: readonly Json[] = [
  { name: 'add', description: 'Adds.', inputSchema: object({ by: { type: 'integer', minimum: 1 } }, ['by']) },
  { name: 'do', description: 'Misbehaves.', inputSchema: object({ what: { type: 'string' } }, ['what']) },
];

export interface McpServerOptions {
  readonly port?: number;
  /** How answers are sent. Default: json. */
  readonly form?: 'json' | 'events';
  readonly tools?: readonly Json[];
  /** What `initialize` gives. Default: a new one each time; `null`: none, and none is demanded. */
  readonly session?: string | null;
  /** Answers in place of the protocol. `undefined`: the protocol. */
  readonly instead?: (request: IncomingMessage, message: Json, response: ServerResponse) => boolean;
}

export interface McpHttpTestServer {
  readonly url: string;
  readonly port: number;
  /** Messages with the headers that came with them. */
  readonly asked: Array<{ readonly message: Json; readonly headers: IncomingMessage['headers'] }>;
  /** What it was told to reply to its own requests. */
  readonly replies: Json[];
  readonly methods: () => string[];
  /** As a server that was started again. */
  forget(): void;
  options: McpServerOptions;
  close(): Promise<void>;
}

async function bodyOf(request: IncomingMessage): Promise<Json> {
  const parts: Buffer[] = [];
  for await (const part of request as AsyncIterable<Buffer>) parts.push(part);
  return JSON.parse(Buffer.concat(parts).toString()) as Json;
}

const text = (value: string, more: Json = {}): Json => ({ content: [{ type: 'text', text: value }], ...more });
/** JSON with it is written by hand: what is nested so deep cannot be stringified. */
const NESTED = '@nested@';
const written = (message: Json, depth = 100_000): string =>
  JSON.stringify(message).replace(`"${NESTED}"`, () => '['.repeat(depth) + ']'.repeat(depth));

export async function startMcpServer(options: McpServerOptions = {}): Promise<McpHttpTestServer> {
  const totals = new Map<string, number>();
  const waiting = new Map<unknown, () => void>();
  const replies: Json[] = [];

  /** The result, or `undefined` if the connection was ended instead. */
  async function callResult(session: string, { name, arguments: given }: Json, { headers, socket }: IncomingMessage) {
    const { by, what } = given as { by?: number; what?: string };
    if (name === 'add') {
      const total = (totals.get(session) ?? 0) + (by ?? 0);
      totals.set(session, total);
      return text(`total ${total}`);
    }
    const [verb, size = '0'] = (what ?? '').split(' ');
    if (verb === 'fail') return text('it went wrong', { isError: true });
    if (verb === 'huge') return text('x'.repeat(Number(size)));
    if (verb === 'deep') return { content: [], structuredContent: { nested: NESTED } };
    if (verb === 'key') return text(`you sent ${headers.authorization}`);
    if (verb === 'wait') await new Promise((resolve) => socket.once('close', resolve));
    if (verb === 'die') process.kill(process.pid, 'SIGKILL');
    if (verb === 'drop') socket.destroy();
    return verb === 'drop' || verb === 'wait' ? undefined : text('naïve ✓');
  }

  async function sendEvents(response: ServerResponse, message: Json): Promise<void> {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('id: 1\ndata:\n\n');
    const ping = randomUUID();
    const answered = new Promise<void>((resolve) => waiting.set(ping, resolve));
    response.write(
      `: note\r\nevent: message\r\ndata: ${JSON.stringify({ jsonrpc: '2.0', id: ping, method: 'ping' })}\r\n\r\n`,
    );
    await answered;
    const other = { jsonrpc: '2.0', id: 'another', result: text('of another request') };
    response.write(`data: ${JSON.stringify(other)}\n\n`);
    const bytes = Buffer.from(`data: ${JSON.stringify(message).replace('"jsonrpc"', '\ndata: "jsonrpc"')}\n\n`);
    // Parts end within a character. The stream stays open.
    const cut = bytes.indexOf(0xc3) + 1;
    response.write(bytes.subarray(0, cut));
    setImmediate(() => response.write(bytes.subarray(cut)));
  }

  const http = createServer((request, response) => {
    void (async () => {
      const message = await bodyOf(request);
      if (request.method !== 'POST') return response.writeHead(405).end();
      const { id, method, params = {} } = message as { id?: string; method?: string; params?: Json };
      server.asked.push({ message, headers: request.headers });
      if (server.options.instead?.(request, message, response) === true) return;
      const { accept = '', 'mcp-session-id': session = '', 'mcp-protocol-version': revision } = request.headers;
      if (!accept.includes('application/json') || !accept.includes('text/event-stream'))
        return response.writeHead(406).end();
      const headers: Record<string, string> = { 'content-type': 'application/json' };
      if (method === 'initialize') {
        const given = server.options.session === undefined ? randomUUID() : server.options.session;
        if (given !== null) headers['mcp-session-id'] = given;
        totals.set(given ?? '', 0);
        const result = { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'counter' } };
        return response.writeHead(200, headers).end(JSON.stringify({ jsonrpc: '2.0', id, result }));
      }
      if (!totals.has(session as string) && server.options.session !== null) return response.writeHead(404).end('{}');
      if (revision !== '2025-06-18') return response.writeHead(400).end();
      if (id === undefined) return response.writeHead(202).end();
      if (method === undefined) {
        replies.push(message);
        waiting.get(id)?.();
        return response.writeHead(202).end();
      }
      const { tools = TOOLS } = server.options;
      const page = Number(params['cursor'] ?? 0);
      const next = page + Math.ceil(tools.length / 3);
      const result =
        method === 'tools/list'
          ? { tools: tools.slice(page, next), ...(next < tools.length && { nextCursor: String(next) }) }
          : method === 'ping'
            ? {}
            : await callResult(session as string, params, request);
      if (result === undefined) return;
      const answer = { jsonrpc: '2.0', id, result };
      if (server.options.form === 'events') return sendEvents(response, answer);
      // A session that another one forged: it must not be taken over.
      return response.writeHead(200, { ...headers, 'mcp-session-id': 'forged' }).end(written(answer));
    })().catch(() => request.socket.destroy());
  });
  await new Promise<void>((resolve) => http.listen(options.port ?? 0, '127.0.0.1', resolve));
  const { port } = http.address() as AddressInfo;
  const server: McpHttpTestServer = {
    url: `http://127.0.0.1:${port}/mcp`,
    port,
    asked: [],
    replies,
    methods: () => server.asked.map(({ message }) => String(message['method'])),
    forget: () => totals.clear(),
    options,
    async close() {
      http.closeAllConnections();
      await new Promise((resolve) => http.close(resolve));
    },
  };
  return server;
}
