/** The supervisor's state in `stack.json`: always one complete state, with a start time for every pid. */

import { readFileSync } from 'node:fs';
import { writeWhole } from '#setup/files.mjs';
import type { ProcessIdentity } from '#setup/process-identity.mjs';

/** `backing-off`: it died and waits for its next start. */
export type ProcessState = 'starting' | 'ready' | 'backing-off' | 'stopping' | 'stopped';

export interface ProcessRecord {
  readonly name: string;
  /** The running process. Absent while none runs. */
  readonly process?: ProcessIdentity;
  readonly state: ProcessState;
  readonly restarts: number;
  /** Number of starts in a row in which it died before it was ready. */
  readonly failedStarts: number;
  /** ISO 8601: start of this state. */
  readonly since: string;
  readonly log: string;
  /** Digest of its command and environment: a process with another digest must be replaced. */
  readonly digest: string;
  /** How it differs from others of its role. */
  readonly note?: string;
}

export interface StackState {
  readonly format: 1;
  readonly supervisor: ProcessIdentity;
  readonly since: string;
  readonly address: string;
  readonly namespace: string;
  /** Address of the Temporal UI. Empty for an external cluster. */
  readonly ui: string;
  /** Ports of the embedded server. Absent for an external cluster. */
  readonly ports?: { readonly temporal: number; readonly ui: number; readonly behind?: UiAddress };
  /** Id of the embedded server's database, after the server has returned it. Clients check it. */
  readonly stackId?: string;
  readonly phase: 'starting' | 'up' | 'stopping';
  /** Absent: written by an earlier version. */
  readonly settings?: StackSettings;
  readonly processes: readonly ProcessRecord[];
}

export function writeStackState(path: string, state: StackState): void {
  writeWhole(path, `${JSON.stringify(state, null, 2)}\n`);
}

/** `undefined` for an invalid file: a loss of power may leave an empty one, and then no process of the stack runs. */
function parseState(text: string): StackState | undefined {
  try {
    const state = JSON.parse(text) as StackState | null;
    return state?.format === 1 ? state : undefined;
  } catch {
    return undefined;
  }
}

/** The last state that was written. `undefined` if there is none, or the file is invalid. */
export function readStackState(path: string): StackState | undefined {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
  return parseState(text);
}

/** Each value in its normal form, so that equal settings compare as equal. Unset variables are left out. */
export type StackSettings = Readonly<Record<string, string>>;

export interface UiAddress {
  readonly host: string;
  readonly port: number;
}
