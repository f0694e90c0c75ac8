/**
 * Servers of tools by the Model Context Protocol (MCP), which a task names. Each runs in the task's sandbox for as long
 * as the sandbox lives, so it may keep state from call to call.
 */

import type { McpRecord } from '../../protocol/records.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';

export interface McpServer {
  /** The program and its arguments: it reads requests from stdin and writes answers to stdout, one a line. */
  readonly command: readonly string[];
  /** Variables beside the sandbox's own. */
  readonly env?: Readonly<Record<string, string>>;
  /** Default: the sandbox's `workdir`. */
  readonly cwd?: string;
  /** The tools to offer, by the server's names. Absent: all. */
  readonly tools?: readonly string[];
}

export type McpServers = Readonly<Record<string, McpServer>>;

/** A server's tool, as it lists it. */
export type McpTool = McpRecord[string][number];

/** A server that does not start, has ended, or does not speak the protocol. The message names it and its command. */
export class McpFailed extends Error {
  override readonly name = 'McpFailed';

  constructor(server: string, { command }: McpServer, what: string) {
    super(`the MCP server ${server} (${command.join(' ')}) ${what}`);
  }
}

/** It is a part of its tools' names. */
const NAME = /^[A-Za-z0-9](?:-?[A-Za-z0-9])*$/;
const MOST = 20;
const isText = (value: unknown): value is string => typeof value === 'string' && !value.includes('\0');

/** Errors: `UserInputError` under `mcp`. */
export function checkServers(servers: McpServers, hasSandbox: boolean): void {
  for (const [name, server] of Object.entries(servers)) {
    const { command, env = {}, cwd } = server as Partial<McpServer>;
    const refused = (member: string, value: unknown, remedy: string) =>
      new UserInputError(`mcp.${name}${member}`, value, remedy);
    if (!hasSandbox) throw refused('', server, 'give the task a sandbox, in which the server can run');
    if (!NAME.test(name) || name.length > MOST)
      throw refused('', name, `give a name of letters, digits and dashes, at most ${MOST}`);
    if (!Array.isArray(command) || command.length === 0 || !command.every(isText))
      throw refused('.command', command, 'give a list of texts: the program and its arguments');
    if (!Object.entries(env).every(([variable, value]) => /^\w+$/u.test(variable) && isText(value)))
      throw refused('.env', env, 'give texts by names of variables');
    if (cwd !== undefined && !isText(cwd)) throw refused('.cwd', cwd, 'give a folder of the sandbox');
  }
}
