/**
 * Stands before Temporal's UI: answers browsers that ask this machine by its own name, for the UI's own pages. The UI
 * itself asks neither who a request was meant for nor which page sent it, and has all that the server has.
 */

// Not on the kit of `servers/http/`: it forwards raw streams and stands before no routes of its own.
import type { UiAddress } from '../connection/stack-state.ts';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import { pipeline } from 'node:stream';

const LOOPBACK = /^(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?$/i;
/** Of one connection alone; the key of an own account on the server is none of the browser's business. */
const NOT_FORWARDED = [
  'connection',
  'keep-alive',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'authorization',
];
const ANSWER_MS = 120_000;

/** Why a request is none of the UI's own; `undefined` where it may be. A page elsewhere may link to the UI, and do nothing more. */
export function whyForeign({ method = '', headers }: Pick<IncomingMessage, 'method' | 'headers'>): string | undefined {
  const { host = '', origin, 'sec-fetch-site': site, 'sec-fetch-mode': mode, 'sec-fetch-dest': destination } = headers;
  // A foreign name may have been resolved to this address.
  if (!LOOPBACK.test(host)) return 'this address answers to localhost and 127.0.0.1 only';
  if (origin !== undefined && origin.toLowerCase() !== `http://${host.toLowerCase()}`)
    return 'a page of another origin asks';
  const isLink = method === 'GET' && mode === 'navigate' && destination === 'document';
  if ((site === 'cross-site' || site === 'same-site') && !isLink) return 'a page of another site asks';
  return undefined;
}

function end(response: ServerResponse, status: number, why: string): void {
  if (response.headersSent) response.destroy();
  else
    response
      .writeHead(status, { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' })
      .end(`${why}\n`);
}

function forward(asked: IncomingMessage, response: ServerResponse, { host, port }: UiAddress): void {
  const headers = Object.fromEntries(Object.entries(asked.headers).filter(([name]) => !NOT_FORWARDED.includes(name)));
  const options = {
    host,
    port,
    method: asked.method,
    path: asked.url,
    headers: { ...headers, host: `${host}:${port}` },
    timeout: ANSWER_MS,
  };
  const away = () => end(response, 502, 'The UI does not answer now: npx longhaul ps says whether the server runs');
  const sent = request(options, (answer) => {
    const { connection: _connection, 'transfer-encoding': _encoding, ...kept } = answer.headers;
    response.writeHead(answer.statusCode ?? 502, kept);
    pipeline(answer, response, () => undefined);
  });
  sent.on('timeout', () => sent.destroy());
  sent.on('error', away);
  response.on('close', () => sent.destroy());
  pipeline(asked, sent, () => undefined);
}

/** Listens on loopback. Errors: those of listening, such as `EADDRINUSE`. */
export async function startUiProxy(port: number, ui: UiAddress): Promise<Server> {
  const server = createServer((asked, response) => {
    response.on('error', () => undefined);
    const why = whyForeign(asked);
    if (why !== undefined) end(response, 403, why);
    // Browsers say how long what they send is. Of a GET, what follows in chunks would be the next request to the UI, which nobody has looked at.
    else if (asked.headers['transfer-encoding'] !== undefined) end(response, 411, 'give content-length');
    else forward(asked, response, ui);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => resolve());
  });
  // What one connection does ends nobody's supervision.
  server.on('error', () => undefined);
  return server;
}
