/**
 * Reads a page of the public web as text: over HTTP with checked addresses and checked redirects, or through Jina's
 * reader. Bounded in time, bytes and characters.
 */

import { guardedLookup } from '../../endpoints/never-asked.ts';
import { exchange, type HttpAnswer, retryAfterMs } from './http.ts';
import { checkServer, keyFor } from './operator-lists.ts';
import { pageText, UnreadablePage } from './page-text.ts';
import { AddressRefused, lookupFor } from './public-address.ts';
import { ServiceUnavailable } from './service-unavailable.ts';

export interface Page {
  readonly url: string;
  readonly title: string;
  readonly text: string;
}

export interface PageReader {
  /** `direct`: this worker fetches the page. `jina`: Jina's reader does. */
  readonly reader: 'direct' | 'jina';
  /** Of Jina's reader. */
  readonly readerUrl: string;
  /** Name of the variable with its key. Absent: it is asked without. */
  readonly keyEnv?: string | undefined;
  /** `HOST:PORT` entries that need not be public. */
  readonly allowPrivate: readonly string[];
  readonly timeoutSeconds: number;
}

/** The page cannot be read, through no fault of this machine. The policy receives the reason. */
export class PageRefused extends Error {
  override readonly name = 'PageRefused';
}

const MOST_BYTES = 4 * 1024 * 1024;
const MOST_REDIRECTS = 5;
export const MOST_PAGE_CHARACTERS = 240_000;
const HEADERS = {
  accept: 'text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.5',
  'accept-encoding': 'identity',
  'user-agent': 'Mozilla/5.0 (compatible; Longhaul)',
};

/** Errors: `PageRefused` for a text that is no URL of the web. */
export function pageUrl(text: string): URL {
  const url = URL.parse(/^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `https://${text}`);
  if (url === null || !/^https?:$/.test(url.protocol)) throw new PageRefused('it is no URL of a page: give https://…');
  url.hash = '';
  return url;
}

async function fetched(
  start: URL,
  reader: PageReader,
  until: number,
  signal: AbortSignal,
): Promise<HttpAnswer & { readonly url: URL }> {
  let url = start;
  for (let hops = 0; hops <= MOST_REDIRECTS; hops += 1) {
    const lookup = lookupFor(url, reader.allowPrivate);
    const request = { url, method: 'GET', headers: HEADERS, maxBytes: MOST_BYTES, signal, lookup } as const;
    const answer = await exchange({ ...request, timeoutMs: until - Date.now() });
    const { location } = answer.headers;
    if (answer.status < 300 || answer.status >= 400 || location === undefined) return { ...answer, url };
    const next = URL.parse(location, url.href);
    if (next === null) throw new PageRefused('it redirects to an address that is none');
    url = next;
  }
  throw new PageRefused(`it redirects more than ${MOST_REDIRECTS} times`);
}

/** The charset that the server or the page names; UTF-8 if it is unknown. */
function decoded({ headers, bytes }: HttpAnswer): string {
  const head = bytes.subarray(0, 2048).toString('latin1');
  const [, name = 'utf-8'] =
    /charset=["']?([\w-]{1,40})/i.exec(headers['content-type'] ?? '') ??
    /<meta[^>]{0,200}charset=["']?([\w-]{1,40})/i.exec(head) ??
    [];
  try {
    return new TextDecoder(name).decode(bytes);
  } catch {
    return bytes.toString('utf8');
  }
}

async function readDirectly(start: URL, reader: PageReader, signal: AbortSignal): Promise<Page> {
  const until = Date.now() + reader.timeoutSeconds * 1000;
  const answer = await fetched(start, reader, until, signal);
  const { status, headers, url } = answer;
  if (status < 200 || status >= 300) throw new PageRefused(`its server answers with status ${status}`);
  const kind = (headers['content-type'] ?? 'text/html').split(';')[0]?.trim().toLowerCase() ?? '';
  const body = decoded(answer);
  if (kind === 'text/html' || kind === 'application/xhtml+xml')
    return { url: url.href, ...(await pageText({ html: body }, until - Date.now(), signal)) };
  if (kind.startsWith('text/') || kind === 'application/json' || kind === 'application/xml')
    return { url: url.href, title: '', text: body };
  throw new PageRefused(`it is of the kind ${kind.slice(0, 60)}, which cannot be read as text`);
}

/** Jina's reader fetches the page itself, from the public web; the same rules hold for what it is asked. */
async function readByJina(url: URL, reader: PageReader, signal: AbortSignal): Promise<Page> {
  lookupFor(url, reader.allowPrivate);
  const service = new URL(reader.readerUrl);
  checkServer('readerUrl', service);
  const key = reader.keyEnv === undefined ? {} : { authorization: `Bearer ${keyFor(reader.keyEnv, service)}` };
  const asked = new URL(`${service.href.replace(/\/$/, '')}/${url.href}`);
  const { status, headers, bytes } = await exchange({
    url: asked,
    method: 'GET',
    headers: { ...key, accept: 'text/plain', 'accept-encoding': 'identity' },
    maxBytes: MOST_BYTES,
    timeoutMs: reader.timeoutSeconds * 1000,
    signal,
    lookup: guardedLookup,
  });
  const wait = retryAfterMs(headers);
  if (status === 401 || status === 402 || status === 403)
    throw new ServiceUnavailable('key', `${service.origin} refuses the key (status ${status})`, { status });
  if (status === 429 || status >= 500)
    throw new ServiceUnavailable('server', `${service.origin} answers with status ${status}`, {
      status,
      ...(wait !== undefined && { retryAfterMs: wait }),
    });
  if (status < 200 || status >= 300) throw new PageRefused(`the reader answers with status ${status}`);
  const text = bytes.toString('utf8');
  return { url: url.href, title: /^Title: (.{1,300})$/m.exec(text.slice(0, 2000))?.[1] ?? '', text };
}

/**
 * The page, cut to `MOST_PAGE_CHARACTERS`. Errors: `PageRefused` for a page that cannot be read; `ServiceUnavailable`
 * if the reader service cannot be used.
 */
export async function readPage(url: URL, reader: PageReader, signal: AbortSignal): Promise<Page> {
  try {
    const page = await (reader.reader === 'jina' ? readByJina : readDirectly)(url, reader, signal);
    return { ...page, text: page.text.slice(0, MOST_PAGE_CHARACTERS) };
  } catch (error) {
    if (error instanceof AddressRefused || error instanceof UnreadablePage)
      throw new PageRefused(error.message, { cause: error });
    // Any page may be down: that is part of the web, not of this machine.
    if (error instanceof ServiceUnavailable && reader.reader === 'direct')
      throw new PageRefused(error.message, { cause: error });
    throw error;
  }
}
