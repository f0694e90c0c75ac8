/**
 * Requests to a Tinker server as its own SDK makes them: a failure of the connection or of the server is retried for
 * five minutes, what the server refuses is not. A key goes only where the operator allows it.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { EndpointError } from '../endpoint-error.ts';
import { retryAfterMs } from '../classify-response.ts';
import { type ByteAnswer, exchangeBytes } from '../exchange-bytes.ts';
import { Permissions } from '../permissions.ts';

/** A server's answer that is not 2xx, or that says that the work failed. */
export class TinkerRefused extends Error {
  override readonly name = 'TinkerRefused';
  /** 0 for a future that failed with status 200. */
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export interface TinkerServer {
  /** Without `/api/v1`. */
  readonly baseUrl: string;
  readonly apiKeyEnv?: string;
}

export const PROTOBUF = 'application/x-protobuf';
const JSON_TYPE = 'application/json';

/** How long the SDK retries a request that is not answered. */
const PATIENCE_MS = 300_000;
const REQUEST_MS = 60_000;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 10_000;
const SDK_VERSION = '0.38.0';

export type Body = { readonly json: unknown } | { readonly protobuf: Uint8Array };

/** An answer with its body, read by its content type. */
export interface Answer {
  readonly status: number;
  readonly isProtobuf: boolean;
  readonly bytes: Buffer;
  readonly headers: ByteAnswer['headers'];
}

export function jsonOf({ bytes }: Pick<Answer, 'bytes'>): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString('utf8'));
  } catch {
    throw new EndpointError('protocol', `the answer is not JSON: ${bytes.toString('utf8', 0, 100)}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new EndpointError('protocol', `the answer is no object: ${bytes.toString('utf8', 0, 100)}`);
  return value as Readonly<Record<string, unknown>>;
}

/** The server's words for a refusal: FastAPI's `detail`, `message` or `error`. */
function saidBy(answer: Answer): string {
  const text = answer.bytes.toString('utf8');
  try {
    const { detail, message, error } = jsonOf(answer);
    const said = detail ?? message ?? error ?? text;
    return (typeof said === 'string' ? said : JSON.stringify(said)).slice(0, 500);
  } catch {
    return text.trim().slice(0, 300);
  }
}

const isTransient = (status: number): boolean => status === 408 || status === 429 || status >= 500;

/** Requests to one server. Errors of all of them: `EndpointError`, `TinkerRefused`, the reason of the signal. */
export class TinkerRequests {
  readonly server: TinkerServer;
  readonly #permissions: Permissions;

  constructor(server: TinkerServer, env: NodeJS.ProcessEnv) {
    this.server = server;
    this.#permissions = new Permissions(env);
  }

  /** The answer, whatever its status. `accept`: content types besides JSON. */
  async once(path: string, body: Body | undefined, signal: AbortSignal, timeoutMs = REQUEST_MS): Promise<Answer> {
    const { baseUrl, apiKeyEnv } = this.server;
    const url = `${baseUrl}/api/v1/${path}`;
    const isNamed = this.#permissions.isNamed(url);
    const key = this.#permissions.keyOf(apiKeyEnv, url);
    const payload = body && ('json' in body ? Buffer.from(JSON.stringify(body.json)) : body.protobuf);
    const headers = {
      accept: path === 'retrieve_future' ? `${PROTOBUF}, ${JSON_TYPE}` : JSON_TYPE,
      'x-sdk-version': SDK_VERSION,
      ...(key !== undefined && { 'x-api-key': key }),
      ...(body && { 'content-type': 'json' in body ? JSON_TYPE : PROTOBUF }),
    };
    const deadline = AbortSignal.timeout(timeoutMs);
    const answer = await exchangeBytes(
      { url, payload, headers, isNamed },
      AbortSignal.any([signal, deadline]),
    ).catch((error: unknown) => {
      signal.throwIfAborted();
      if (error instanceof EndpointError) throw error;
      if (deadline.aborted) throw new EndpointError('timeout', `${url} gave no answer within ${timeoutMs / 1000} s`);
      const { code, message } = error as NodeJS.ErrnoException;
      throw new EndpointError('unavailable', `${url}: ${message || code || 'the connection failed'}`, { cause: error });
    });
    const type = answer.headers['content-type'] ?? '';
    // A server may quote the key that it rejects; it must not get into logs or histories.
    const bytes =
      key !== undefined && answer.status >= 400
        ? Buffer.from(answer.bytes.toString('utf8').replaceAll(key, '***'))
        : answer.bytes;
    return { status: answer.status, headers: answer.headers, isProtobuf: type.startsWith(PROTOBUF), bytes };
  }

  /** The answer of a request that may be repeated: the server knows it again by its number. */
  async submit(path: string, body: Body | undefined, signal: AbortSignal): Promise<Answer> {
    const end = Date.now() + PATIENCE_MS;
    for (let tries = 0; ; tries += 1) {
      const answer = await this.once(path, body, signal).catch((error: unknown) => {
        if (error instanceof EndpointError && error.isTransient && Date.now() < end) return error;
        throw error;
      });
      if (!(answer instanceof EndpointError)) {
        const { status, headers } = answer;
        if (status >= 200 && status < 300) return answer;
        if (!isTransient(status) || headers['x-should-retry'] === 'false' || Date.now() >= end)
          throw refusal(path, answer);
      }
      const asked = answer instanceof EndpointError ? undefined : retryAfterMs(answer.headers, Date.now());
      await sleep(Math.max(Math.min(asked ?? 0, REQUEST_MS), waitMs(tries)), undefined, { signal });
    }
  }

  async json(path: string, body: unknown, signal: AbortSignal): Promise<Readonly<Record<string, unknown>>> {
    return jsonOf(await this.submit(path, body === undefined ? undefined : { json: body }, signal));
  }
}

export const refusal = (path: string, answer: Answer): TinkerRefused =>
  new TinkerRefused(answer.status, `${path}: HTTP ${answer.status}: ${saidBy(answer)}`);

/** Half a second, doubled up to ten, less up to a quarter of it. */
export const waitMs = (tries: number): number =>
  Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** Math.min(tries, 10)) * (1 - Math.random() / 4);
