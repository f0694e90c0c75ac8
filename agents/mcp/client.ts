/** The client's side of the Model Context Protocol: three requests over a server's stdin and stdout. */

import type { Sandbox } from '../../sandboxes/sandbox.ts';
import {
  INITIALIZED,
  INTRODUCTION,
  isRequest,
  type Json,
  line,
  messagesIn,
  type Outcome,
  outcomeOf,
  reply,
  resultText,
  toolOf,
} from './messages.ts';
import { McpFailed, type McpSandboxServer, type McpTool } from './server.ts';
import { type Exchanged, Transport } from './transport.ts';

/** Exchanges, and pages of a list, of one request: a server that never comes to its answer is given up. */
const MOST_EXCHANGES = 100;
const MOST_PAGES = 50;
const START_MS = 60_000;

/** The result of a request, or why there is none. */
type Answered = Outcome | Exclude<Exchanged, { readonly kind: 'lines' }>;

/** One conversation with a server, named by the call that it is for. */
class Session {
  readonly #transport: Transport;
  readonly #name: string;
  readonly #server: McpSandboxServer;
  readonly #id: string;
  #asked = 0;

  constructor(sandbox: Sandbox, name: string, server: McpSandboxServer, id: string, timeoutMs: number) {
    this.#transport = new Transport(sandbox, name, server, id, timeoutMs);
    this.#name = name;
    this.#server = server;
    this.#id = id;
  }

  failed(what: string): McpFailed {
    return new McpFailed(this.#name, this.#server, what);
  }

  /** Starts the server and agrees on the protocol. Errors: `McpFailed`. */
  async start(): Promise<void> {
    const { exitCode, output, timedOut } = await this.#transport.launch();
    if (timedOut || exitCode !== 0) throw this.failed(`was not started: ${output.trim() || 'the sandbox is too busy'}`);
    const { protocolVersion } = this.resultOf('initialize', await this.request('initialize', INTRODUCTION));
    if (typeof protocolVersion !== 'string')
      throw this.failed('answered initialize without a protocolVersion: it does not speak MCP');
  }

  /** Errors: `McpFailed` unless there is a result. */
  resultOf(method: string, answered: Answered): Json {
    switch (answered.kind) {
      case 'result':
        return answered.result;
      case 'error':
        throw this.failed(`refused ${method}: ${answered.message}`);
      case 'timed-out':
        throw this.failed(`did not answer ${method} in time`);
      case 'too-long':
        throw this.failed(`answered ${method} with more than can be read`);
      case 'not-running':
      case 'ended':
        throw this.failed(`ended before it answered ${method}, ${answered.how}`);
    }
  }

  /** `before`: messages to send before the request. Errors: `McpFailed` for a line that is no message. */
  async request(method: string, params: Json, before: readonly string[] = []): Promise<Answered> {
    this.#asked += 1;
    const id = `${this.#id}/${this.#asked}`;
    let messages = [...before, line({ id, method, params })];
    let seen = 0;
    for (let exchange = 0; exchange < MOST_EXCHANGES; exchange += 1) {
      const exchanged = await this.#transport.exchange(messages, seen);
      if (exchanged.kind !== 'lines') return exchanged;
      seen += exchanged.lines.length;
      const received = exchanged.lines.filter((text) => text.trim() !== '').flatMap((text) => this.#read(text, method));
      const answer = received.find((message) => message['id'] === id && message['method'] === undefined);
      if (answer !== undefined) return this.#answered(answer, method);
      messages = received.filter(isRequest).map(reply);
    }
    throw this.failed(`wrote ${seen} messages, none of which answers ${method}`);
  }

  #read(text: string, method: string): Json[] {
    const messages = messagesIn(text);
    if (messages !== undefined) return messages;
    const shown = JSON.stringify(text.slice(0, 100));
    throw this.failed(
      `answered ${method} with a line that is no JSON-RPC message (${shown}): stdout is for messages alone`,
    );
  }

  #answered(answer: Json, method: string): Answered {
    const outcome = outcomeOf(answer);
    if (outcome === undefined) throw this.failed(`answered ${method} without a result`);
    return outcome;
  }
}

/**
 * Starts a server in its sandbox and lists its tools, once for each `id`. Errors: `McpFailed`; those of the sandbox.
 */
export async function startServer(
  sandbox: Sandbox,
  name: string,
  server: McpSandboxServer,
  id: string,
): Promise<McpTool[]> {
  const session = new Session(sandbox, name, server, id, START_MS);
  await session.start();
  const tools: McpTool[] = [];
  let cursor: unknown;
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const params = cursor === undefined ? {} : { cursor };
    const answered = await session.request('tools/list', params, page === 0 ? [INITIALIZED] : []);
    const { tools: listed, nextCursor } = session.resultOf('tools/list', answered);
    if (!Array.isArray(listed)) throw session.failed('answered tools/list without a list of tools');
    tools.push(...listed.map((one) => toolOf(one, session.failed.bind(session))));
    cursor = nextCursor;
    if (cursor === undefined || cursor === null) return tools;
  }
  throw session.failed(`has more than ${MOST_PAGES} pages of tools`);
}

export interface McpCall {
  readonly sandbox: Sandbox;
  readonly server: string;
  readonly spec: McpSandboxServer;
  readonly tool: string;
  readonly args: Json;
  /** Prefix of the journal's keys: a repeated call attaches to the one that runs, or returns its answer. */
  readonly callId: string;
  readonly timeoutMs: number;
  /** True: a server that does not run is started without a word, since its first call starts it. */
  readonly startsQuietly?: boolean;
}

/**
 * The answer of a tool as a text, also if its server ended or wrote nonsense. A server that had ended before is started
 * again, and the answer says so. Errors: those of the sandbox.
 */
export async function callTool(call: McpCall): Promise<string> {
  const { sandbox, server, spec, tool, args, callId, timeoutMs, startsQuietly = false } = call;
  const params = { name: tool, arguments: args };
  try {
    const session = new Session(sandbox, server, spec, callId, timeoutMs);
    const answered = await session.request('tools/call', params);
    if (answered.kind !== 'not-running') return textOf(answered, session, timeoutMs);
    const again = new Session(sandbox, server, spec, `${callId}#again`, timeoutMs);
    await again.start();
    const text = textOf(await again.request('tools/call', params, [INITIALIZED]), again, timeoutMs);
    if (startsQuietly) return text;
    return `[the MCP server ${server} had ended ${answered.how}\nit was started again]\n${text}`;
  } catch (error) {
    if (error instanceof McpFailed) return `Error: ${error.message}`;
    throw error;
  }
}

function textOf(answered: Answered, session: Session, timeoutMs: number): string {
  if (answered.kind === 'timed-out') return `[timed out after ${timeoutMs / 1000} s; everything was stopped]`;
  if (answered.kind === 'error') return `Error: ${answered.message}`;
  return resultText(session.resultOf('the call', answered));
}
