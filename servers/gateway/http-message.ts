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
/** Each chunk costs time, however small it is. */
const MOST_CHUNKS = 16_384;

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/u;
const END_OF_HEAD = Buffer.from('\r\n\r\n');

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

/** Bytes that come in parts. However small the parts are, each byte is copied a few times only. */
class Gathered {
  #held = Buffer.alloc(0);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get bytes(): Buffer {
    return this.#held.subarray(0, this.#size);
  }

  add(part: Uint8Array): void {
    const size = this.#size + part.length;
    if (size > this.#held.length) {
      const held = Buffer.alloc(Math.max(size, 2 * this.#held.length, 1024));
      held.set(this.bytes);
      this.#held = held;
    }
    this.#held.set(part, this.#size);
    this.#size = size;
  }
}

/** A body in chunks. It keeps its place: what came before is not read again. */
class ChunkedBody {
  readonly #body = new Gathered();
  #chunks = 0;
  /** Bytes of the open chunk that are to come. */
  #left = 0;
  #line = '';
  #expects: 'size' | 'bytes' | 'end' | 'last' | 'nothing' = 'size';

  /** The body once it is whole. Errors: `ApiError`. */
  push(bytes: Uint8Array): Buffer | undefined {
    for (let at = 0; at < bytes.length;) {
      if (this.#expects === 'bytes') {
        const part = bytes.subarray(at, at + this.#left);
        this.#body.add(part);
        at += part.length;
        this.#left -= part.length;
        if (this.#left === 0) this.#expects = 'end';
      } else {
        this.#readLine(bytes[at] ?? 0);
        at += 1;
      }
    }
    return this.#expects === 'nothing' ? this.#body.bytes : undefined;
  }

  /** One byte of what is between the chunks. */
  #readLine(byte: number): void {
    if (this.#expects === 'nothing') throw wrong('a connection carries one request');
    this.#line += String.fromCharCode(byte);
    const line = this.#line;
    if (this.#expects === 'size') {
      if (!/^[0-9A-Fa-f]{0,8}\r?\n?$/u.test(line) || line === '\r' || line === '\n') throw wrong('a chunk has no size');
      if (!line.endsWith('\n')) return;
      if (!line.endsWith('\r\n')) throw wrong('a chunk has no size');
      this.#open(Number.parseInt(line, 16));
    } else {
      if (!'\r\n'.startsWith(line))
        throw wrong(this.#expects === 'last' ? 'trailers are not read' : 'a chunk is longer than its size');
      if (line.length < 2) return;
      this.#expects = this.#expects === 'last' ? 'nothing' : 'size';
    }
    this.#line = '';
  }

  #open(length: number): void {
    this.#chunks += 1;
    if (this.#chunks > MOST_CHUNKS) throw wrong(`a body may have at most ${MOST_CHUNKS} chunks`, 413);
    if (this.#body.size + length > MOST_BODY) throw wrong(`the body may have at most ${MOST_BODY} bytes`, 413);
    this.#left = length;
    this.#expects = length === 0 ? 'last' : 'bytes';
  }
}

/** Reads one request as its bytes come. */
export class RequestReader {
  readonly #start = new Gathered();
  #head: Head | undefined;
  readonly #body = new Gathered();
  readonly #chunked = new ChunkedBody();

  /** The request once it is whole. Errors: `ApiError`; then nothing else is read. */
  push(chunk: Uint8Array): GatewayRequest | undefined {
    const rest = this.#head === undefined ? this.#readHead(chunk) : chunk;
    return rest && this.#head && this.#whole(this.#head, rest);
  }

  /** What follows the head; `undefined`: there is more of it to come. */
  #readHead(chunk: Uint8Array): Uint8Array | undefined {
    const from = Math.max(0, this.#start.size - END_OF_HEAD.length + 1);
    this.#start.add(chunk);
    const { bytes } = this.#start;
    const end = bytes.subarray(0, MOST_HEAD).indexOf(END_OF_HEAD, from);
    if (end < 0) {
      if (bytes.length >= MOST_HEAD) throw wrong(`the headers may have at most ${MOST_HEAD} bytes`, 431);
      return undefined;
    }
    this.#head = headOf(bytes.subarray(0, end));
    return bytes.subarray(end + END_OF_HEAD.length);
  }

  #whole({ length, ...head }: Head, rest: Uint8Array): GatewayRequest | undefined {
    if (length === undefined) {
      const body = this.#chunked.push(rest);
      return body && { ...head, body };
    }
    if (this.#body.size + rest.length > length) throw wrong('a connection carries one request');
    this.#body.add(rest);
    return this.#body.size < length ? undefined : { ...head, body: this.#body.bytes };
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
