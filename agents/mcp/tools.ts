/** Servers' tools as tools that the policy can call, under `SERVER__TOOL`: OpenAI's API allows no dot in a name. */

import type { Sandbox } from '../../sandboxes/sandbox.ts';
import { truncateMiddle } from '../tools/observation.ts';
import { DEFAULT_MAX_CHARACTERS, makeTool, type Tool } from '../tools/tool.ts';
import type { McpRecord } from '../../protocol/records.ts';
import { callTool, startServer } from './client.ts';
import { McpFailed, type McpServer, type McpServers, type McpTool } from './server.ts';

const LONGEST = 64;

function nameOf(server: string, { name }: McpTool): string {
  return `${server}__${name.replaceAll(/[^A-Za-z0-9_-]/gu, '_')}`;
}

function madeOf(server: string, spec: McpServer, listed: McpTool): Tool {
  const { name, description, inputSchema, readOnly } = listed;
  return makeTool({
    name: nameOf(server, listed),
    description,
    parameters: { ...inputSchema, type: 'object' },
    onlyReads: () => readOnly,
    async run(args, sandbox, { callId, timeoutMs, maxCharacters = DEFAULT_MAX_CHARACTERS }) {
      const text = await callTool({ sandbox, server, spec, tool: name, args: args.all(), callId, timeoutMs });
      return truncateMiddle(text, maxCharacters);
    },
  });
}

/** The tools of `listing`, by name. */
export function mcpTools(servers: McpServers, listing: McpRecord): Tool[] {
  return Object.entries(servers).flatMap(([server, spec]) =>
    (listing[server] ?? []).map((listed) => madeOf(server, spec, listed)),
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

/** Starts each server in the sandbox, once, and lists its tools. Errors: `McpFailed`; those of the sandbox. */
export async function startServers(sandbox: Sandbox, servers: McpServers, id: string): Promise<McpRecord> {
  const listing: Record<string, readonly McpTool[]> = {};
  for (const [name, spec] of Object.entries(servers))
    listing[name] = offeredOf(name, spec, await startServer(sandbox, name, spec, `${id}/${name}`));
  return listing;
}
