/**
 * Servers of tools by the Model Context Protocol (MCP), which a task names: programs in the task's sandbox, which may
 * keep state for as long as the sandbox lives, and servers elsewhere, which workers reach over HTTP.
 */

import type { McpRecord } from '../../protocol/records.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { checkServer, keyNotListed } from '../web/operator-lists.ts';

interface Common {
  /** The tools to offer, by the server's names. Absent: all. */
  readonly tools?: readonly string[];
}

/** A program in the sandbox. */
export interface McpSandboxServer extends Common {
  /** The program and its arguments: it reads requests from stdin and writes answers to stdout, one a line. */
  readonly command: readonly string[];
  /** Variables beside the sandbox's own. */
  readonly env?: Readonly<Record<string, string>>;
  /** Default: the sandbox's `workdir`. */
  readonly cwd?: string;
}

/** A server outside of the sandbox, which speaks MCP's Streamable HTTP. The worker asks it. */
export interface McpHttpServer extends Common {
  /** The operator decides which addresses workers may reach (`LONGHAUL_ENDPOINTS`, `LONGHAUL_KEYS`). */
  readonly url: string;
  /** What its calls change. `none`: a call may be made again. Default: `outside`, a call is made once at most. */
  readonly effect?: 'none' | 'outside';
  /** The environment variable of the workers whose value is sent as `Authorization: Bearer`. Absent: no key is sent. */
  readonly key?: string;
}

export type McpServer = McpSandboxServer | McpHttpServer;
export type McpServers = Readonly<Record<string, McpServer>>;

/** A server's tool, as it lists it. */
export type McpTool = McpRecord[string][number];

export const isOverHttp = (server: McpServer): server is McpHttpServer => 'url' in server;

/** True if one of them runs in the sandbox. */
export const anyInSandbox = (servers: McpServers = {}): boolean =>
  Object.values(servers).some((server) => !isOverHttp(server));

const placeOf = (server: McpServer): string => (isOverHttp(server) ? server.url : server.command.join(' '));

/** `the MCP server NAME (PLACE)`. */
export const serverText = (name: string, server: McpServer): string => `the MCP server ${name} (${placeOf(server)})`;

/** A server that does not start, has ended, or does not speak the protocol. The message names it and its place. */
export class McpFailed extends Error {
  override readonly name = 'McpFailed';
  /** True if the call was not made. */
  readonly unsent: boolean;

  constructor(name: string, server: McpServer, what: string, { unsent = false }: { readonly unsent?: boolean } = {}) {
    super(`${serverText(name, server)} ${what}`);
    this.unsent = unsent;
  }
}

/** It is a part of its tools' names. */
const NAME = /^[A-Za-z0-9](?:-?[A-Za-z0-9])*$/;
const MOST = 20;
const VARIABLE = /^[A-Za-z_]\w{0,63}$/u;
const isText = (value: unknown): value is string => typeof value === 'string' && !value.includes('\0');

/** The first member that cannot be used. */
type Wrong = readonly [member: string, value: unknown, remedy: string] | undefined;

function wrongInSandbox(server: Partial<McpSandboxServer>, hasSandbox: boolean): Wrong {
  const { command, env = {}, cwd } = server;
  if (!hasSandbox) return ['', server, 'give the task a sandbox, in which the server can run, or give url'];
  if (!Array.isArray(command) || command.length === 0 || !command.every(isText))
    return ['.command', command, 'give a list of texts: the program and its arguments'];
  if (!Object.entries(env).every(([variable, value]) => /^\w+$/u.test(variable) && isText(value)))
    return ['.env', env, 'give texts by names of variables'];
  return cwd === undefined || isText(cwd) ? undefined : ['.cwd', cwd, 'give a folder of the sandbox'];
}

function wrongOverHttp(server: McpHttpServer): Wrong {
  const { url, effect, key } = server as Partial<McpHttpServer>;
  const other = ['command', 'env', 'cwd'].find((member) => member in server);
  if (other !== undefined)
    return [`.${other}`, server, 'leave it out: a server with url runs elsewhere, not in the sandbox'];
  const parsed = typeof url === 'string' ? URL.parse(url) : null;
  if (parsed === null || !/^https?:$/u.test(parsed.protocol) || parsed.username || parsed.password || parsed.hash)
    return ['.url', url, 'give an address such as https://host/mcp, without user and password'];
  if (effect !== undefined && !['none', 'outside'].includes(effect))
    return ['.effect', effect, 'give none, if a call may be made again, or outside'];
  if (key !== undefined && !VARIABLE.test(key))
    return ['.key', '(not shown)', 'give the name of an environment variable, never the key itself'];
  return undefined;
}

/** Errors: `UserInputError` under `mcp`. */
export function checkServers(servers: McpServers, hasSandbox: boolean): void {
  for (const [name, server] of Object.entries(servers)) {
    const refused = (member: string, value: unknown, remedy: string) =>
      new UserInputError(`mcp.${name}${member}`, value, remedy);
    if (!NAME.test(name) || name.length > MOST)
      throw refused('', name, `give a name of letters, digits and dashes, at most ${MOST}`);
    const wrong = isOverHttp(server) ? wrongOverHttp(server) : wrongInSandbox(server, hasSandbox);
    if (wrong !== undefined) throw refused(...wrong);
    const { tools } = server as { readonly tools?: unknown };
    if (tools !== undefined && !(Array.isArray(tools) && tools.every(isText)))
      throw refused('.tools', tools, "give a list of the server's names of tools");
  }
}

/** Errors: `UserInputError` if this process may not reach a server over HTTP, or may not send it its key. */
export function checkReach(servers: McpServers): void {
  for (const [name, server] of Object.entries(servers)) {
    if (!isOverHttp(server)) continue;
    const url = new URL(server.url);
    checkServer(`mcp.${name}.url`, url);
    const wrong = server.key === undefined ? undefined : keyNotListed(server.key, url);
    if (wrong !== undefined) throw new UserInputError(`mcp.${name}.key`, server.key, wrong);
  }
}
