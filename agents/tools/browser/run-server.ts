/** Calls of the browser's server. It keeps its pages for as long as the sandbox lives. */

import type { ReadResult, Sandbox } from '../../../sandboxes/sandbox.ts';
import { askOwnServer, type OwnServerCall } from '../../mcp/own-server.ts';
import { ACTIONS } from './server-actions.ts';
import { PROTOCOL } from './server-protocol.ts';

const FOLDER = '/tmp/.longhaul-browser';
const SERVER = { name: 'browser', folder: FOLDER, program: `${PROTOCOL}${ACTIONS}` };
/** Of a grader's look at the pages. */
const MOST_LOOKED = 32 << 20;

type Arguments = Readonly<Record<string, unknown>>;

/** What the browser answers to an action. Errors: those of the sandbox. */
export const actInBrowser = async (args: Arguments, call: OwnServerCall): Promise<string> =>
  await askOwnServer(SERVER, 'act', args, call);

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
export async function lookInBrowser(targets: readonly LookTarget[], call: OwnServerCall): Promise<Look | string> {
  const said = await askOwnServer(SERVER, 'look', { targets }, call);
  if (!said.endsWith('looked')) return said;
  const read = await call.sandbox.read(`${FOLDER}/looked.json`, MOST_LOOKED);
  if (read.kind !== 'file') return `what the browser showed is ${read.kind}`;
  return JSON.parse(Buffer.from(read.content).toString('utf8')) as Look;
}
