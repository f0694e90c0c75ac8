/**
 * One HTTP/1.1 request in bytes that a hostile program may have written, and its answer in bytes. A connection carries
 * one request. Whatever two readers could read in two ways is refused: there is nothing to smuggle past.
 */

import { ApiError } from '../http/api-error.ts';

export interface GatewayRequest {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  /** Names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Uint8Array;
}

export interface GatewayResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Bytes of the request line and the headers, and their number. */
const MOST_HEAD = 32 * 1024;
const MOST_HEADERS = 100;
/** Bytes of a body: far more than a context holds. */
export const MOST_BODY = 1 << 20;

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/u;
const END_OF_HEAD = Buffer.from('\r\n\r\n');
const LAST_CHUNK = Buffer.from('0\r\n\r\n');

interface Head {
  readonly method: string;
  readonly path: string;
  readonly headers: ReadonlyMap<string, string>;
  /** `undefined`: in chunks. */
  readonly length: number | undefined;
}

const wrong = (message: string, status = 400): ApiError => new ApiError(status, message);

function headersOf(lines: readonly string[]): Map<string, string> {
  if (lines.length > MOST_HEADERS) throw wrong(`headers: at most ${MOST_HEADERS} are read`, 431);
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(':');
    const name = line.slice(0, Math.max(0, colon));
    if (!TOKEN.test(name)) throw wrong('headers: a line has no name');
    const value = line.slice(colon + 1).trim();
    // oxlint-disable-next-line no-control-regex -- those are what is refused
    if (/[\0-\x08\x0a-\x1f\x7f]/u.test(value)) throw wrong('headers: a value has control characters');
    const key = name.toLowerCase();
    if (headers.has(key) && ['content-length', 'transfer-encoding', 'host', 'authorization', 'x-api-key'].includes(key))
      throw wrong(`headers: ${key} is given twice`);
    headers.set(key, value);
  }
  return headers;
}

function lengthOf(headers: ReadonlyMap<string, string>): number | undefined {
  const [length, encoding] = [headers.get('content-length'), headers.get('transfer-encoding')];
  if (encoding !== undefined) {
    if (length !== undefined) throw wrong('headers: give content-length or transfer-encoding, not both');
    if (encoding.toLowerCase() !== 'chunked') throw wrong('transfer-encoding: only chunked is read', 501);
    return undefined;
  }
  if (length === undefined) return 0;
  if (!/^\d{1,12}$/u.test(length)) throw wrong('content-length: give a whole number');
  if (Number(length) > MOST_BODY) throw wrong(`the body may have at most ${MOST_BODY} bytes`, 413);
  return Number(length);
}

function headOf(bytes: Buffer): Head {
  const [line = '', ...lines] = bytes.toString('latin1').split('\r\n');
  const [, method = '', target = ''] = /^([A-Z]{1,16}) (\S{1,8192}) HTTP\/1\.[01]$/u.exec(line) ?? [];
  if (method === '') throw wrong('the first line is no HTTP/1.1 request');
  if (method === 'CONNECT' || !target.startsWith('/') || target.startsWith('//'))
    throw wrong('nothing but the model is behind this address', 403);
  if (lines.some((one) => /[\r\n]/u.test(one) || /^[ \t]/u.test(one))) throw wrong('headers: a line is folded');
  const headers = headersOf(lines);
  return { method, path: target.split(/[?#]/u)[0] ?? '', headers, length: lengthOf(headers) };
}

/** The body of `bytes`, which end with the last chunk; `undefined`: there is more to come. */
function unchunked(bytes: Buffer): Buffer | undefined {
  const parts: Buffer[] = [];
  for (let at = 0; ;) {
    const end = bytes.indexOf('\r\n', at);
    if (end < 0) return undefined;
    const size = bytes.toString('latin1', at, end);
    if (!/^[0-9A-Fa-f]{1,8}$/u.test(size)) throw wrong('a chunk has no size');
    const length = Number.parseInt(size, 16);
    const next = end + 2 + length;
    if (length === 0) {
      if (bytes.length > end + 4) throw wrong('a connection carries one request');
      if (bytes.length < end + 4) return undefined;
      if (bytes.toString('latin1', end + 2) !== '\r\n') throw wrong('trailers are not read');
      return Buffer.concat(parts);
    }
    if (next + 2 > bytes.length) return undefined;
    if (bytes.toString('latin1', next, next + 2) !== '\r\n') throw wrong('a chunk is longer than its size');
    parts.push(bytes.subarray(end + 2, next));
    at = next + 2;
  }
}

/** Reads one request as its bytes come. */
export class RequestReader {
  #parts: Buffer[] = [];
  #size = 0;
  #head: Head | undefined;

  get size(): number {
    return this.#size;
  }

  /** The request once it is whole. Errors: `ApiError`; then nothing else is read. */
  push(chunk: Uint8Array): GatewayRequest | undefined {
    if (chunk.length > 0) this.#parts.push(Buffer.from(chunk));
    this.#size += chunk.length;
    if (this.#head === undefined && !this.#readHead()) return undefined;
    const head = this.#head;
    return head && this.#whole(head);
  }

  #readHead(): boolean {
    const bytes = Buffer.concat(this.#parts);
    this.#parts = [bytes];
    const end = bytes.subarray(0, MOST_HEAD).indexOf(END_OF_HEAD);
    if (end < 0) {
      if (bytes.length >= MOST_HEAD) throw wrong(`the headers may have at most ${MOST_HEAD} bytes`, 431);
      return false;
    }
    this.#head = headOf(bytes.subarray(0, end));
    const rest = bytes.subarray(end + END_OF_HEAD.length);
    this.#parts = [rest];
    this.#size = rest.length;
    return true;
  }

  #whole({ length, ...head }: Head): GatewayRequest | undefined {
    // The framing of chunks is at most as long again, for a sender that is not hostile.
    if (this.#size > (length ?? 2 * MOST_BODY)) {
      if (length === undefined) throw wrong(`the body may have at most ${MOST_BODY} bytes`, 413);
      throw wrong('a connection carries one request');
    }
    if (length !== undefined) return this.#size < length ? undefined : { ...head, body: Buffer.concat(this.#parts) };
    if (!this.#endsWithLastChunk()) return undefined;
    const body = unchunked(Buffer.concat(this.#parts));
    if (body !== undefined && body.length > MOST_BODY) throw wrong(`the body may have at most ${MOST_BODY} bytes`, 413);
    return body && { ...head, body };
  }

  #endsWithLastChunk(): boolean {
    const last = this.#parts.slice(-LAST_CHUNK.length);
    return Buffer.concat(last).subarray(-LAST_CHUNK.length).equals(LAST_CHUNK);
  }
}

const REASONS: Readonly<Record<number, string>> = {
  200: 'OK',
  400: 'Bad Request',
  401: 'Unauthorized',
  404: 'Not Found',
};

/** The answer in bytes. The connection ends with it. */
export function responseBytes({ status, headers, body }: GatewayResponse): Buffer {
  const bytes = Buffer.from(body);
  const lines = [
    `HTTP/1.1 ${status} ${REASONS[status] ?? 'Status'}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    `content-length: ${bytes.length}`,
    'connection: close',
  ];
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), bytes]);
}
