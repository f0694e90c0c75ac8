/**
 * One HTTP exchange of a tool, bounded in time and bytes. Redirects are not followed here. The connection goes to an
 * address that `lookup` has checked.
 */

import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { LookupFunction } from 'node:net';
import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib';
import { ServiceUnavailable } from './service-unavailable.ts';

export interface HttpRequest {
  readonly url: URL;
  readonly method: 'GET' | 'POST';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** The answer is cut there. */
  readonly maxBytes: number;
  /** For the whole exchange. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** Resolves names and checks their addresses. */
  readonly lookup: LookupFunction;
  /**
   * Sees each part of an answer that is not compressed, and ends the reading by true. Absent: it is read to its end.
   */
  readonly isEnough?: (part: Buffer, headers: IncomingHttpHeaders) => boolean;
}

export interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
  readonly isCut: boolean;
}

/** `connected` is called when the server can begin to read. */
function send(
  { url, method, headers, body, lookup }: HttpRequest,
  signal: AbortSignal,
  connected: () => void,
): Promise<IncomingMessage> {
  const payload = body === undefined ? undefined : Buffer.from(body);
  const length = payload && { 'content-length': String(payload.length) };
  // No connection is kept: the next request may have other rules about addresses.
  const options = { method, headers: { ...headers, ...length }, signal, lookup, agent: false } as const;
  return new Promise((resolve, reject) => {
    const sent = (url.protocol === 'https:' ? httpsRequest : httpRequest)(url, options, resolve);
    sent.on('error', reject);
    sent.once('socket', (socket) => socket.once(url.protocol === 'https:' ? 'secureConnect' : 'connect', connected));
    sent.end(payload);
  });
}

async function read(
  answer: IncomingMessage,
  { maxBytes, isEnough }: HttpRequest,
): Promise<Pick<HttpAnswer, 'bytes' | 'isCut'>> {
  const isPlain = answer.headers['content-encoding'] === undefined;
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > maxBytes || (isPlain && isEnough?.(chunk, answer.headers) === true)) break;
  }
  answer.destroy();
  return { bytes: Buffer.concat(chunks).subarray(0, maxBytes), isCut: length > maxBytes };
}

/** A server may compress although it was not asked to. What is larger than the limit fails. */
function inflated(bytes: Buffer, coding: string | undefined, maxBytes: number): Buffer {
  const limit = { maxOutputLength: maxBytes };
  switch (coding?.toLowerCase()) {
    case undefined:
    case '':
    case 'identity':
      return bytes;
    case 'gzip':
    case 'x-gzip':
      return gunzipSync(bytes, limit);
    case 'deflate':
      return inflateSync(bytes, limit);
    case 'br':
      return brotliDecompressSync(bytes, limit);
    default:
      throw new Error(`the answer has the unknown encoding ${coding}`);
  }
}

/**
 * Errors: `ServiceUnavailable` if there is no answer; what `lookup` reports; the reason of `signal` if that was
 * aborted.
 */
export async function exchange(request: HttpRequest): Promise<HttpAnswer> {
  const { url, signal, timeoutMs, maxBytes } = request;
  signal.throwIfAborted();
  const over = AbortSignal.timeout(Math.max(1, Math.floor(timeoutMs)));
  let unsent = true;
  try {
    const answer = await send(request, AbortSignal.any([signal, over]), () => {
      unsent = false;
    });
    const { bytes, isCut } = await read(answer, request);
    const { statusCode: status = 0, headers } = answer;
    return { status, headers, isCut, bytes: inflated(bytes, headers['content-encoding'], maxBytes) };
  } catch (error) {
    signal.throwIfAborted();
    if (over.aborted)
      throw new ServiceUnavailable('timeout', `${url.origin} gave no answer within ${timeoutMs / 1000} s`, { unsent });
    // An address that may not be used is no failure of a server.
    if (error instanceof Error && error.name !== 'Error' && !('code' in error)) throw error;
    const { code, message } = error as NodeJS.ErrnoException;
    throw new ServiceUnavailable('connection', `${url.origin}: ${message || code || 'the connection failed'}`, {
      cause: error,
      unsent,
    });
  }
}

/** Seconds or a date, as milliseconds from now, at most an hour. */
export function retryAfterMs({ 'retry-after': given }: IncomingHttpHeaders): number | undefined {
  if (given === undefined) return undefined;
  const ms = /^\d+$/.test(given) ? Number(given) * 1000 : Date.parse(given) - Date.now();
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(0, ms), 3_600_000);
}
