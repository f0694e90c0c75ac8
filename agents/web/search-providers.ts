/** Search engines with an API: Serper (Google) and You.com. Each query is one request, retried while it may help. */

import { setTimeout as pause } from 'node:timers/promises';
import { guardedLookup } from '../../endpoints/never-asked.ts';
import { exchange, type HttpRequest, retryAfterMs } from './http.ts';
import { checkServer, keyFor } from './operator-lists.ts';
import { ServiceUnavailable } from './service-unavailable.ts';

export interface WebResult {
  readonly title: string;
  readonly url: string;
  readonly snippet: string;
}

interface Provider {
  readonly url: string;
  readonly keyEnv: string;
  request(
    url: URL,
    query: string,
    count: number,
    key: string,
  ): Pick<HttpRequest, 'url' | 'method' | 'headers' | 'body'>;
  /** `undefined`: it is not in the provider's form. */
  read(answer: unknown): WebResult[] | undefined;
}

const listIn = (value: unknown, ...path: readonly string[]): readonly unknown[] | undefined => {
  const found = path.reduce<unknown>(
    (inner, name) =>
      typeof inner === 'object' && inner !== null ? (inner as Record<string, unknown>)[name] : undefined,
    value,
  );
  return Array.isArray(found) ? found : undefined;
};

function result(value: unknown, names: { readonly url: string; readonly texts: readonly string[] }): WebResult[] {
  if (typeof value !== 'object' || value === null) return [];
  const record = value as Readonly<Record<string, unknown>>;
  const { title } = record;
  const url = record[names.url];
  if (typeof url !== 'string') return [];
  const texts = names.texts.flatMap((name) => [record[name]].flat()).filter((one) => typeof one === 'string');
  return [{ title: typeof title === 'string' ? title : url, url, snippet: [...new Set(texts)].join(' … ') }];
}

export const PROVIDERS = {
  serper: {
    url: 'https://google.serper.dev/search',
    keyEnv: 'GOOGLE_SEARCH_KEY',
    request: (url, query, count, key) => ({
      url,
      method: 'POST',
      headers: { 'x-api-key': key, 'content-type': 'application/json' },
      body: JSON.stringify({ q: query, num: count }),
    }),
    // A query without results has no list.
    read: (answer) =>
      typeof answer === 'object' && answer !== null
        ? (listIn(answer, 'organic') ?? []).flatMap((one) => result(one, { url: 'link', texts: ['snippet', 'date'] }))
        : undefined,
  },
  youcom: {
    url: 'https://ydc-index.io/v1/search',
    keyEnv: 'YOUCOM_API_KEY',
    request: (base, query, count, key) => {
      const url = new URL(base);
      url.searchParams.set('query', query);
      url.searchParams.set('count', String(count));
      return { url, method: 'GET', headers: { 'x-api-key': key } };
    },
    read: (answer) =>
      (listIn(answer, 'results', 'web') ?? listIn(answer, 'hits'))?.flatMap((one) =>
        result(one, { url: 'url', texts: ['description', 'snippets'] }),
      ),
  },
} as const satisfies Record<string, Provider>;

export type ProviderName = keyof typeof PROVIDERS;

export interface SearchRequest {
  readonly provider: ProviderName;
  /** In place of the provider's own. */
  readonly url?: string | undefined;
  readonly keyEnv?: string | undefined;
  readonly count: number;
  readonly timeoutSeconds: number;
}

export interface SearchWithin {
  readonly signal: AbortSignal;
  /** Milliseconds since the epoch. */
  readonly deadline: number;
  readonly wait?: (ms: number, signal: AbortSignal) => Promise<unknown>;
}

const MOST_TRIES = 5;
const REPORT_MS = 1500;
const MOST_BYTES = 8 * 1024 * 1024;

async function askOnce(
  { provider: name, url: given, keyEnv, count, timeoutSeconds }: SearchRequest,
  query: string,
  { signal, deadline }: SearchWithin,
): Promise<WebResult[]> {
  const provider: Provider = PROVIDERS[name];
  const base = new URL(given ?? provider.url);
  checkServer('url', base);
  const asked = provider.request(base, query, count, keyFor(keyEnv ?? provider.keyEnv, base));
  const timeoutMs = Math.min(timeoutSeconds * 1000, Math.max(1, deadline - Date.now() - REPORT_MS));
  const { status, headers, bytes } = await exchange({
    ...asked,
    headers: { ...asked.headers, accept: 'application/json', 'accept-encoding': 'identity' },
    maxBytes: MOST_BYTES,
    timeoutMs,
    signal,
    lookup: guardedLookup,
  });
  const wait = retryAfterMs(headers);
  const message = `${base.origin} answers with status ${status}`;
  if (status === 401 || status === 402 || status === 403)
    throw new ServiceUnavailable('key', `${message}: check the key ${keyEnv ?? provider.keyEnv} and its credit`, {
      status,
    });
  if (status === 429 || status >= 500)
    throw new ServiceUnavailable('server', message, { status, ...(wait !== undefined && { retryAfterMs: wait }) });
  if (status < 200 || status >= 300) throw new ServiceUnavailable('client', message, { status });
  let answer: unknown;
  try {
    answer = JSON.parse(bytes.toString('utf8'));
  } catch (error) {
    throw new ServiceUnavailable('not-json', `${base.origin} answers without JSON`, { cause: error });
  }
  const found = provider.read(answer);
  if (found === undefined)
    throw new ServiceUnavailable('answer', `${base.origin} answers in another form than ${name}`);
  return found.slice(0, count);
}

const mayPass = ({ kind }: ServiceUnavailable): boolean => ['server', 'connection', 'timeout'].includes(kind);

/** The best results, the best first. Errors: `ServiceUnavailable`; the reason of `signal`. */
export async function searchWeb(request: SearchRequest, query: string, within: SearchWithin): Promise<WebResult[]> {
  const { signal, deadline, wait = (ms, until) => pause(ms, undefined, { signal: until }) } = within;
  for (let tries = 1; ; tries += 1) {
    try {
      return await askOnce(request, query, within);
    } catch (error) {
      if (!(error instanceof ServiceUnavailable) || !mayPass(error)) throw error;
      const ms = error.retryAfterMs ?? 1000 * tries;
      if (tries >= MOST_TRIES || ms > deadline - Date.now() - REPORT_MS) throw error;
      await wait(ms, signal);
    }
  }
}
