/**
 * Calls of the desktop's server. It is an MCP server that belongs to the tool: it comes into the sandbox with the first
 * call, its windows stay for as long as the sandbox lives, and every exchange with it is journalled there.
 */

import type { ReadResult, Sandbox } from '../../../sandboxes/sandbox.ts';
import { callTool } from '../../mcp/client.ts';
import { DESKTOP_SERVER } from './desktop-server.ts';

const FOLDER = '/tmp/.longhaul-computer';
const PROGRAM = `${FOLDER}/server.py`;

export interface DesktopCall {
  readonly sandbox: Sandbox;
  /** Prefix of the journal's keys. */
  readonly callId: string;
  readonly timeoutMs: number;
}

type Arguments = Readonly<Record<string, unknown>>;

async function asked(
  tool: 'act' | 'open',
  given: Arguments,
  { sandbox, callId, timeoutMs }: DesktopCall,
): Promise<string> {
  const args = { ...given, limit: timeoutMs / 1000 };
  const content = Buffer.from(DESKTOP_SERVER);
  const { error } = await sandbox.write({ callId: `${callId}#server`, path: PROGRAM, content, note: '' });
  if (error !== undefined) return `Error: the desktop's server cannot be written: ${error}`;
  const spec = { command: ['python3', '-I', '-S', PROGRAM] };
  return await callTool({ sandbox, server: 'computer', spec, tool, args, callId, timeoutMs, startsQuietly: true });
}

/** What the desktop shows after an action. Errors: those of the sandbox. */
export const actOnDesktop = async (args: Arguments, call: DesktopCall): Promise<string> =>
  await asked('act', args, call);

/** The last screenshot. */
export const readScreenshot = async (sandbox: Sandbox, most: number): Promise<ReadResult> =>
  await sandbox.read(`${FOLDER}/screenshot`, most);

/**
 * For an environment: starts a program on the desktop, in `folder`, and returns when it has a window. Errors: `Error`
 * with the reason why it has none; those of the sandbox.
 */
export async function openOnDesktop(command: readonly string[], folder: string, call: DesktopCall): Promise<void> {
  const said = await asked('open', { command, folder }, call);
  if (!said.endsWith('opened')) throw new Error(`the program cannot be shown: ${said}`);
}
