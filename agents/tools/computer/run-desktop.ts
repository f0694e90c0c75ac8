/** Calls of the desktop's server. Its windows stay for as long as the sandbox lives. */

import type { ReadResult, Sandbox } from '../../../sandboxes/sandbox.ts';
import { askOwnServer, type OwnServerCall } from '../../mcp/own-server.ts';
import { DESKTOP_SERVER } from './desktop-server.ts';

const FOLDER = '/tmp/.longhaul-computer';
const SERVER = { name: 'computer', folder: FOLDER, program: DESKTOP_SERVER };

type Arguments = Readonly<Record<string, unknown>>;

/** What the desktop shows after an action. Errors: those of the sandbox. */
export const actOnDesktop = async (args: Arguments, call: OwnServerCall): Promise<string> =>
  await askOwnServer(SERVER, 'act', args, call);

/** The last screenshot. */
export const readScreenshot = async (sandbox: Sandbox, most: number): Promise<ReadResult> =>
  await sandbox.read(`${FOLDER}/screenshot`, most);

/**
 * For an environment: starts a program on the desktop, in `folder`, and returns when it has a window. Errors: `Error`
 * with the reason why it has none; those of the sandbox.
 */
export async function openOnDesktop(command: readonly string[], folder: string, call: OwnServerCall): Promise<void> {
  const said = await askOwnServer(SERVER, 'open', { command, folder }, call);
  if (!said.endsWith('opened')) throw new Error(`the program cannot be shown: ${said}`);
}
