/** What the supervisor knows, in `stack.json`: always one complete state, with the start time beside every pid. */

import { readFileSync } from 'node:fs';
import { writeWhole } from '#setup/files.mjs';
import type { ProcessIdentity } from '#setup/process-identity.mjs';

/** `backing-off`: it died and waits to be started again. */
export type ProcessState = 'starting' | 'ready' | 'backing-off' | 'stopping' | 'stopped';

export interface ProcessRecord {
  readonly name: string;
  /** Of the running process; absent while none runs. */
  readonly process?: ProcessIdentity;
  readonly state: ProcessState;
  readonly restarts: number;
  /** How often in a row it died without having become ready. */
  readonly failedStarts: number;
  /** ISO 8601: when it came into this state. */
  readonly since: string;
  readonly log: string;
  /** Of its command and surroundings: a process with another one is not what is wanted. */
  readonly digest: string;
  /** What sets it apart from others of its role. */
  readonly note?: string;
}

export interface StackState {
  readonly format: 1;
  readonly supervisor: ProcessIdentity;
  readonly since: string;
  readonly address: string;
  readonly namespace: string;
  /** The Temporal UI; empty for a cluster that is not ours. */
  readonly ui: string;
  /** Of the embedded server; absent when the cluster is not ours. */
  readonly ports?: { readonly temporal: number; readonly ui: number; readonly behind?: UiAddress };
  /** Of the embedded server's database, once the server has answered with it: clients check it. */
  readonly stackId?: string;
  readonly phase: 'starting' | 'up' | 'stopping';
  /** Absent: written by an earlier version. */
  readonly settings?: StackSettings;
  readonly processes: readonly ProcessRecord[];
}

export function writeStackState(path: string, state: StackState): void {
  writeWhole(path, `${JSON.stringify(state, null, 2)}\n`);
}

/** `undefined` of what is no state: a machine that lost its power may leave an empty file, and nothing of the stack runs then. */
function parseState(text: string): StackState | undefined {
  try {
    const state = JSON.parse(text) as StackState | null;
    return state?.format === 1 ? state : undefined;
  } catch {
    return undefined;
  }
}

/** The last state that was written; `undefined` when there never was one, or it cannot be read as one. */
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

/** Each value in one form, so that what means the same is the same; what nobody said is left out. */
export type StackSettings = Readonly<Record<string, string>>;

export interface UiAddress {
  readonly host: string;
  readonly port: number;
}
