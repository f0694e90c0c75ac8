/** Servers' tools as tools that the policy can call, under `SERVER__TOOL`: OpenAI's API allows no dot in a name. */

import type { Sandbox } from '../../sandboxes/sandbox.ts';
import type { McpSessions } from '../../store/mcp-sessions.ts';
import { ArgumentReader } from '../tools/schema/arguments.ts';
import type { ObjectSchema } from '../tools/schema/json-schema.ts';
import { truncateMiddle } from '../tools/observation.ts';
import { DEFAULT_MAX_CHARACTERS, makeTool, type Tool } from '../tools/tool.ts';
import type { McpRecord, McpSession } from '../../protocol/records.ts';
import { callTool, startServer } from './client.ts';
import { callOverHttp, listTools } from './http-client.ts';
import { isOverHttp, McpFailed, type McpHttpServer, type McpServer, type McpServers, type McpTool } from './server.ts';

const LONGEST = 64;
/** Of servers over HTTP: tools that one offers, and what the policy reads of each and of all. */
const MOST_OFFERED = 64;
const MOST_CHARACTERS = 32_768;
const MOST_TOGETHER = 262_144;

function nameOf(server: string, { name }: McpTool): string {
  return `${server}__${name.replaceAll(/[^A-Za-z0-9_-]/gu, '_')}`;
}

const schemaOf = ({ inputSchema }: McpTool): ObjectSchema => ({ ...inputSchema, type: 'object' });

/** It runs in the worker, which keeps nothing of the server from call to call. */
function madeOverHttp(server: string, spec: McpHttpServer, listed: McpTool, sessions: McpSessions): Tool {
  const { name: tool, description } = listed;
  return makeTool({
    name: nameOf(server, listed),
    description,
    parameters: schemaOf(listed),
    runs: 'worker',
    effect: spec.effect ?? 'outside',
    async run(args, { deadline, signal, maxCharacters = DEFAULT_MAX_CHARACTERS }) {
      const peer = { name: server, spec, signal };
      const text = await callOverHttp({ peer, sessions, tool, args: args.all(), deadline });
      return truncateMiddle(text, maxCharacters);
    },
  });
}

function madeOf(server: string, spec: McpServer, listed: McpTool, sessionsAt: (server: string) => McpSessions): Tool {
  if (isOverHttp(spec)) return madeOverHttp(server, spec, listed, sessionsAt(server));
  const { name, description, readOnly } = listed;
  return makeTool({
    name: nameOf(server, listed),
    description,
    parameters: schemaOf(listed),
    onlyReads: () => readOnly,
    async run(args, sandbox, { callId, timeoutMs, maxCharacters = DEFAULT_MAX_CHARACTERS }) {
      const text = await callTool({ sandbox, server, spec, tool: name, args: args.all(), callId, timeoutMs });
      return truncateMiddle(text, maxCharacters);
    },
  });
}

/** The tools of `listing`. `sessionsAt`: those of the attempt at a server over HTTP. */
export function mcpTools(servers: McpServers, listing: McpRecord, sessionsAt: (server: string) => McpSessions): Tool[] {
  return Object.entries(servers).flatMap(([server, spec]) =>
    (listing[server] ?? []).map((listed) => madeOf(server, spec, listed, sessionsAt)),
  );
}

/**
 * Those of the listed tools that a task offers. Errors: `McpFailed` for a missing one, and for names that are no names.
 */
function offeredOf(server: string, spec: McpServer, listed: readonly McpTool[]): McpTool[] {
  const names = listed.map(({ name }) => name);
  const missing = spec.tools?.find((name) => !names.includes(name));
  if (missing !== undefined)
    throw new McpFailed(server, spec, `has no tool ${missing}; it has ${names.join(', ') || 'none'}`);
  const offered = listed.filter(({ name }) => spec.tools?.includes(name) ?? true);
  const taken = new Set<string>();
  for (const tool of offered) {
    const name = nameOf(server, tool);
    if (name.length > LONGEST || taken.has(name))
      throw new McpFailed(
        server,
        spec,
        `has the tool ${tool.name}: ${name} is ${taken.has(name) ? 'the name of another one too' : 'too long'}`,
      );
    taken.add(name);
  }
  return offered;
}

/** Starts each server of the sandbox, once, and lists its tools. Errors: `McpFailed`; those of the sandbox. */
export async function startServers(sandbox: Sandbox, servers: McpServers, id: string): Promise<McpRecord> {
  const listing: Record<string, readonly McpTool[]> = {};
  for (const [name, spec] of Object.entries(servers)) {
    if (isOverHttp(spec)) continue;
    listing[name] = offeredOf(name, spec, await startServer(sandbox, name, spec, `${id}/${name}`));
  }
  return listing;
}

/** Errors: `McpFailed` for more than a policy should read, and for arguments that cannot be checked in bounded time. */
function checkBounds(server: string, spec: McpServer, offered: readonly McpTool[]): void {
  const refused = (what: string) =>
    new McpFailed(server, spec, `${what}: name the tools to offer in mcp.${server}.tools`);
  if (offered.length > MOST_OFFERED) throw refused(`offers ${offered.length} tools, at most ${MOST_OFFERED} are taken`);
  let together = 0;
  for (const tool of offered) {
    const { length } = tool.description + JSON.stringify(tool.inputSchema);
    together += length;
    if (length > MOST_CHARACTERS)
      throw refused(`describes ${tool.name} by ${length} characters, at most ${MOST_CHARACTERS} are taken`);
    const why = new ArgumentReader(tool.name, schemaOf(tool)).unchecked;
    if (why !== undefined) throw refused(`has ${tool.name}, whose arguments cannot be checked (${why})`);
  }
  if (together > MOST_TOGETHER)
    throw refused(`describes its tools by ${together} characters, at most ${MOST_TOGETHER} are taken`);
}

/** What servers over HTTP offer an attempt, and the sessions that were begun for it, by server. */
export interface ListedOverHttp {
  readonly listing: McpRecord;
  readonly sessions: Readonly<Record<string, McpSession>>;
}

/** Begins a session at each server over HTTP, and lists its tools. Errors: `McpFailed`; `ServiceUnavailable`. */
export async function listOverHttp(servers: McpServers, signal: AbortSignal): Promise<ListedOverHttp> {
  const listing: Record<string, readonly McpTool[]> = {};
  const sessions: Record<string, McpSession> = {};
  for (const [name, spec] of Object.entries(servers)) {
    if (!isOverHttp(spec)) continue;
    const { session, tools } = await listTools({ name, spec, signal });
    const offered = offeredOf(name, spec, tools);
    checkBounds(name, spec, offered);
    listing[name] = offered;
    sessions[name] = session;
  }
  return { listing, sessions };
}
