/**
 * Calls of the browser's server. It is an MCP server that belongs to the tool: it comes into the sandbox with the first
 * call, keeps its pages for as long as the sandbox lives, and every exchange with it is journalled there.
 */

import type { ReadResult, Sandbox } from '../../../sandboxes/sandbox.ts';
import { callTool } from '../../mcp/client.ts';
import { ACTIONS } from './server-actions.ts';
import { PROTOCOL } from './server-protocol.ts';

const FOLDER = '/tmp/.longhaul-browser';
const PROGRAM = `${FOLDER}/server.py`;
/** Of a grader's look at the pages. */
const MOST_LOOKED = 32 << 20;

export interface BrowserCall {
  readonly sandbox: Sandbox;
  /** Prefix of the journal's keys. */
  readonly callId: string;
  readonly timeoutMs: number;
}

type Arguments = Readonly<Record<string, unknown>>;

async function asked(
  tool: 'act' | 'look',
  given: Arguments,
  { sandbox, callId, timeoutMs }: BrowserCall,
): Promise<string> {
  // Past the call's time everything in the sandbox would be stopped: the server's own limits are below it.
  const args = { ...given, limit: timeoutMs / 1000 };
  const content = Buffer.from(`${PROTOCOL}${ACTIONS}`);
  const { error } = await sandbox.write({ callId: `${callId}#server`, path: PROGRAM, content, note: '' });
  if (error !== undefined) return `Error: the browser's server cannot be written: ${error}`;
  const spec = { command: ['python3', '-I', '-S', PROGRAM] };
  return await callTool({ sandbox, server: 'browser', spec, tool, args, callId, timeoutMs, startsQuietly: true });
}

/** What the browser answers to an action. Errors: those of the sandbox. */
export const actInBrowser = async (args: Arguments, call: BrowserCall): Promise<string> =>
  await asked('act', args, call);

/** The last screenshot. */
export const readScreenshot = async (sandbox: Sandbox, most: number): Promise<ReadResult> =>
  await sandbox.read(`${FOLDER}/screenshot`, most);

/** An expression to evaluate on a page, after `steps`, whose failure ends them. */
export interface LookTarget {
  /** Opened first. Absent: the page that is open. */
  readonly url?: string;
  /** Seconds to wait after it was opened. */
  readonly pause?: number;
  readonly steps?: readonly string[];
  readonly expression: string;
}

export interface Look {
  /** Of the page that was open. */
  readonly url: string;
  readonly values: ReadonlyArray<{ readonly value?: unknown; readonly failed?: string }>;
}

/**
 * The state of the browser, for a grader: it may open other pages in the same session. Returns why there is none, as a
 * text. Errors: those of the sandbox.
 */
export async function lookInBrowser(targets: readonly LookTarget[], call: BrowserCall): Promise<Look | string> {
  const said = await asked('look', { targets }, call);
  if (!said.endsWith('looked')) return said;
  const read = await call.sandbox.read(`${FOLDER}/looked.json`, MOST_LOOKED);
  if (read.kind !== 'file') return `what the browser showed is ${read.kind}`;
  return JSON.parse(Buffer.from(read.content).toString('utf8')) as Look;
}
