/**
 * Tools of a server over HTTP: they are listed once for an attempt, and called by whichever worker has the turn. The
 * worker holds no session: it is a record. A server that is down is an error, never an observation.
 */

import type { McpSession } from '../../protocol/records.ts';
import type { McpSessions } from '../../store/mcp-sessions.ts';
import { normalizeOutput } from '../tools/observation.ts';
import { ServiceUnavailable } from '../web/service-unavailable.ts';
import { HttpTransport, type HttpAnswered, type McpPeer, MOST_ANSWER_BYTES } from './http-transport.ts';
import { INITIALIZED, INTRODUCTION, type Json, resultText, toolOf } from './messages.ts';
import { McpFailed, type McpTool, serverText } from './server.ts';

const MOST_PAGES = 50;
/** Tools that a server may list, offered or not. */
const MOST_LISTED = 1000;
const REQUEST_MS = 60_000;
const START_MS = 180_000;
/** Whether a server that is slow to answer a call lives at all. */
const PING_MS = 3000;
/** Time to stop the call, and for the caller to report that there was no answer. */
const REPORT_MS = 2500;
/** Visible ASCII, as the protocol says. */
const SESSION = /^[\x21-\x7e]{1,1024}$/u;
const REVISION = /^\d{4}-\d{2}-\d{2}$/u;

const failed = ({ name, spec }: McpPeer, what: string): McpFailed => new McpFailed(name, spec, what);

/** Errors: `McpFailed` unless there is a result. */
function resultOf(peer: McpPeer, method: string, answered: HttpAnswered): Json {
  switch (answered.kind) {
    case 'result':
      return answered.result;
    case 'error':
      throw failed(peer, `refused ${method}: ${normalizeOutput(answered.message).slice(0, 500)}`);
    case 'refused':
      throw failed(peer, `refused ${method} with status ${answered.status}`);
    case 'too-long':
      throw failed(peer, `answered ${method} with more than can be read`);
    case 'forgotten':
      throw failed(peer, `has forgotten the session before ${method}`);
  }
}

/** Begins a session. Errors: `McpFailed`; `ServiceUnavailable`. */
async function openSession(peer: McpPeer, timeoutMs = REQUEST_MS): Promise<McpSession> {
  const answered = await new HttpTransport(peer).request('initialize', INTRODUCTION, timeoutMs);
  const { protocolVersion: revision } = resultOf(peer, 'initialize', answered);
  const id = 'session' in answered ? answered.session : undefined;
  if (typeof revision !== 'string' || !REVISION.test(revision))
    throw failed(peer, 'answered initialize without a protocolVersion: it does not speak MCP');
  if (id !== undefined && !SESSION.test(id))
    throw failed(peer, 'gave a session id that no header may have (1 to 1024 visible ASCII characters)');
  const session = { revision, ...(id !== undefined && { id }) };
  await new HttpTransport(peer, session).notify(INITIALIZED, timeoutMs);
  return session;
}

/** Begins a session and lists the server's tools. Errors: `McpFailed`; `ServiceUnavailable`. */
export async function listTools(
  peer: McpPeer,
): Promise<{ readonly session: McpSession; readonly tools: readonly McpTool[] }> {
  const ends = Date.now() + START_MS;
  const session = await openSession(peer);
  const transport = new HttpTransport(peer, session);
  const tools: McpTool[] = [];
  let cursor: unknown;
  for (let page = 0; page < MOST_PAGES && tools.length <= MOST_LISTED; page += 1) {
    const left = ends - Date.now();
    if (left <= 0) throw transport.unavailable('timeout', `did not list its tools within ${START_MS / 1000} s`);
    const params = cursor === undefined ? {} : { cursor };
    const answered = await transport.request('tools/list', params, Math.min(REQUEST_MS, left));
    const { tools: listed, nextCursor } = resultOf(peer, 'tools/list', answered);
    if (!Array.isArray(listed)) throw failed(peer, 'answered tools/list without a list of tools');
    tools.push(...listed.map((one) => toolOf(one, (what) => failed(peer, what))));
    cursor = nextCursor;
    if (cursor === undefined || cursor === null) break;
  }
  if ((cursor !== undefined && cursor !== null) || tools.length > MOST_LISTED)
    throw failed(peer, `has more than ${MOST_PAGES} pages or ${MOST_LISTED} tools`);
  return { session, tools };
}

export interface HttpCall {
  readonly peer: McpPeer;
  readonly sessions: McpSessions;
  readonly tool: string;
  readonly args: Json;
  /** Milliseconds since the epoch. */
  readonly deadline: number;
}

/** A call that takes too long is an observation only if the server lives: it answers another request. */
async function slow(transport: HttpTransport, call: HttpCall, ms: number, cause: ServiceUnavailable): Promise<string> {
  const pingMs = Math.min(PING_MS, (call.deadline - Date.now()) / 2);
  const { kind } = await transport.request('ping', {}, Math.max(1, pingMs)).catch((error: unknown) => {
    call.peer.signal.throwIfAborted();
    throw error instanceof ServiceUnavailable ? cause : error;
  });
  if (kind !== 'result' && kind !== 'error') throw cause;
  const effect = call.peer.spec.effect === 'none' ? '' : '\n[it may or may not have had its effect]';
  return `[timed out after ${Math.round(ms / 1000)} s]${effect}`;
}

async function asked(transport: HttpTransport, call: HttpCall): Promise<HttpAnswered | string> {
  const left = call.deadline - Date.now();
  const ms = Math.max(left - PING_MS - REPORT_MS, left / 2, 1);
  try {
    return await transport.request('tools/call', { name: call.tool, arguments: call.args }, ms);
  } catch (error) {
    if (!(error instanceof ServiceUnavailable) || error.kind !== 'timeout') throw error;
    return slow(transport, call, ms, error);
  }
}

/**
 * The answer of a tool as a text. Errors: `ServiceUnavailable` if the server is down or answers nonsense; `McpFailed`
 * if it has ended the session of a tool with effects; the reason of the peer's `signal`.
 */
export async function callOverHttp(call: HttpCall): Promise<string> {
  const { peer, sessions } = call;
  const { name, spec } = peer;
  let session = await sessions.latest();
  for (let isAgain = false; ; isAgain = true) {
    const transport = new HttpTransport(peer, session);
    const answered = await asked(transport, call);
    if (typeof answered === 'string') return answered;
    switch (answered.kind) {
      case 'result':
        return resultText(answered.result);
      case 'error':
        return `Error: ${normalizeOutput(answered.message)}`;
      case 'refused':
        return `Error: ${serverText(name, spec)} refuses the call (status ${answered.status})`;
      case 'too-long':
        return (
          `Error: ${serverText(name, spec)} answered the call with more than can be read ` +
          `(${MOST_ANSWER_BYTES >> 20} MiB)`
        );
      case 'forgotten':
        if (spec.effect !== 'none')
          throw new McpFailed(name, spec, 'has ended the session, and what earlier calls left in it', { unsent: true });
        if (isAgain) throw transport.unavailable('answer', 'forgets a session as soon as it has begun');
        session = await sessions.follow(
          session,
          await openSession(peer, Math.max(1, (call.deadline - Date.now() - REPORT_MS) / 2)),
        );
    }
  }
}
