/**
 * One HTTP exchange. It does not follow redirects: a redirect is an answer like any other, so a key is not sent to
 * another address. It does not use `fetch`, which aborts if the first byte of the answer takes more than five minutes,
 * as in a long generation.
 */

import {
  Agent as HttpAgent,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request as httpRequest,
} from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { EndpointError } from './endpoint-error.ts';
import { checkHost, guardedLookup } from './never-asked.ts';

const agents = { 'http:': new HttpAgent({ keepAlive: true }), 'https:': new HttpsAgent({ keepAlive: true }) };

/** Limit on an answer: a context of a million tokens with log-probabilities is smaller. */
const MAX_BYTES = 256 * 1024 * 1024;

export interface ByteRequest {
  readonly url: string;
  /** Absent: a GET. */
  readonly payload?: Uint8Array | undefined;
  readonly headers: OutgoingHttpHeaders;
  /** True if the operator listed the address. Then it is not checked against the forbidden ones. */
  readonly isNamed: boolean;
  /** True: over a new connection, which is closed afterwards, since kept ones may all be closed. */
  readonly overNew?: boolean;
}

export interface ByteAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
}

/** Errors of requests over a kept connection that the server had just closed: it has not answered a byte. */
const overClosed = new WeakSet<Error>();

/** The request may be sent again at once, over a new connection, if its repetition does no harm. */
export const wasClosed = (error: unknown): boolean => error instanceof Error && overClosed.has(error);

function send(
  { url, payload, headers, isNamed, overNew = false }: ByteRequest,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const target = new URL(url);
  if (!isNamed) checkHost(target);
  const secure = target.protocol === 'https:';
  const options = {
    method: payload ? 'POST' : 'GET',
    headers: { ...headers, ...(payload && { 'content-length': payload.length }) },
    signal,
    agent: overNew ? false : agents[secure ? 'https:' : 'http:'],
    ...(isNamed ? {} : { lookup: guardedLookup }),
  };
  return new Promise((resolve, reject) => {
    const sent = (secure ? httpsRequest : httpRequest)(target, options, resolve);
    sent.on('error', (error: NodeJS.ErrnoException) => {
      if (sent.reusedSocket && (error.code === 'ECONNRESET' || error.code === 'EPIPE')) overClosed.add(error);
      reject(error);
    });
    sent.end(payload);
  });
}

/**
 * Errors: those of the connection; `EndpointError` for an address that is never asked, and for an answer without end.
 */
export async function exchangeBytes(request: ByteRequest, signal: AbortSignal): Promise<ByteAnswer> {
  const answer = await send(request, signal);
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_BYTES) throw new EndpointError('protocol', `the answer is longer than ${MAX_BYTES} bytes`);
    chunks.push(chunk);
  }
  return { status: answer.statusCode ?? 0, headers: answer.headers, bytes: Buffer.concat(chunks) };
}
