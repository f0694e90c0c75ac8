/**
 * A proxy before Temporal's UI: it answers only browsers that address this machine by a local name, for the UI's own
 * pages. The UI itself checks neither host nor origin of a request, and gives access to all of the server's data.
 */

// Does not use `servers/http/`: it forwards raw streams and has no routes.
import type { UiAddress } from '../connection/stack-state.ts';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import { pipeline } from 'node:stream';

const LOOPBACK = /^(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?$/i;
/** Headers of one connection only, and `authorization`, which the browser must not send to the server. */
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

/** Why a request does not come from the UI; `undefined` if it may. Other sites may link to the UI, and nothing else. */
export function whyForeign({ method = '', headers }: Pick<IncomingMessage, 'method' | 'headers'>): string | undefined {
  const { host = '', origin, 'sec-fetch-site': site, 'sec-fetch-mode': mode, 'sec-fetch-dest': destination } = headers;
  // Another site's name may resolve to this address.
  if (!LOOPBACK.test(host)) return 'open the UI as localhost or 127.0.0.1: requests with other host names are refused';
  if (origin !== undefined && origin.toLowerCase() !== `http://${host.toLowerCase()}`)
    return 'requests of pages of other origins are refused';
  const isLink = method === 'GET' && mode === 'navigate' && destination === 'document';
  if ((site === 'cross-site' || site === 'same-site') && !isLink) return 'requests of pages of other sites are refused';
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
  const away = () => end(response, 502, 'The UI does not answer now; check whether the server runs: npx longhaul ps');
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
    // Browsers send a content-length. The UI would read the chunks after a GET as another, unchecked request.
    else if (asked.headers['transfer-encoding'] !== undefined) end(response, 411, 'give content-length');
    else forward(asked, response, ui);
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => resolve());
  });
  // An error of one connection must not end the supervisor.
  server.on('error', () => undefined);
  return server;
}
