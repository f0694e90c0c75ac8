/**
 * Snapshots of an attempt's sandbox, so that a lost one is not restored by minutes of repeated calls: one is taken
 * after a turn when the calls since the last one took long. It counts only if the workspace has the turn's digest
 * after it was taken, and what is restored from it is compared with a recorded digest like every restored sandbox.
 */

import { anyInSandbox } from '../../agents/mcp/server.ts';
import type { ActRecord, SnapshotRecord } from '../../protocol/records.ts';
import { attemptKey, keys } from '../../protocol/record-keys.ts';
import type { Attempt } from '../../protocol/stages.ts';
import {
  type Sandbox,
  SandboxImpossible,
  type SandboxProvider,
  type SandboxSpec,
  SandboxUnavailable,
} from '../../sandboxes/sandbox.ts';
import { restoreSnapshot, takeSnapshot } from '../../sandboxes/snapshot.ts';
import { workspaceDigest } from '../../sandboxes/workspace-digest.ts';
import { lastActBefore } from '../../store/read-records.ts';
import type { Store } from '../../store/store.ts';
import { MAIN, type Task } from '../../tasks/environment.ts';

/** How long the calls since the last snapshot may take when they are run again. */
export const SNAPSHOT_AFTER_MS = 180_000;

/** The time that the attempt's calls up to this turn take when they are run again; `ms`: those of the turn. */
export async function replayMsOf(turn: number, ms: number, attempt: Attempt, store: Store): Promise<number> {
  return ((await lastActBefore(turn, attempt, store))?.replayMs ?? 0) + ms;
}

/** The last snapshot of the attempt, also one that could not be taken. */
async function latest(attempt: Attempt, store: Store): Promise<SnapshotRecord | undefined> {
  return (await store.list<SnapshotRecord>(keys.snapshots(attempt))).at(-1)?.value;
}

/** True if everything that a task changes is in a snapshot of its one sandbox. */
function fits({ sandboxes = {}, mcp }: Task): boolean {
  const { [MAIN]: main, ...others } = sandboxes;
  const isWhole = main !== undefined && main.profile !== 'swe' && main.folders === undefined;
  return isWhole && !anyInSandbox(mcp) && Object.keys(others).length === 0;
}

async function taken(sandbox: Sandbox, workdir: string, callId: string) {
  try {
    return await takeSnapshot(sandbox, workdir, callId);
  } catch (error) {
    // It is no fault of the turn, which is recorded.
    if (error instanceof SandboxUnavailable || error instanceof SandboxImpossible) return error.message;
    throw error;
  }
}

/** After a turn that was recorded: takes a snapshot if the calls since the last one took longer than `afterMs`. */
export async function snapshotIfLong(
  { attempt, turn, record }: { readonly attempt: Attempt; readonly turn: number; readonly record: ActRecord },
  task: Task,
  sandbox: Sandbox,
  { store, signal, afterMs = SNAPSHOT_AFTER_MS }: { store: Store; signal: AbortSignal; afterMs?: number | undefined },
): Promise<void> {
  const { replayMs = 0, digest } = record;
  if (replayMs < afterMs || digest === undefined || !fits(task)) return;
  if (replayMs - ((await latest(attempt, store))?.replayMs ?? 0) < afterMs) return;
  const callId = `${attemptKey(attempt)}/${turn}/snapshot`;
  const snapshot = await taken(sandbox, task.sandboxes?.[MAIN]?.workdir ?? '', callId);
  const key = keys.snapshot(attempt, turn);
  if (typeof snapshot === 'string') {
    await store.putOnce<SnapshotRecord>(key, { turn, replayMs, none: snapshot });
    return;
  }
  // A worker that was frozen may read a sandbox in which the next turn has begun.
  if ((await workspaceDigest(sandbox, `${callId}/digest`)) !== digest) return;
  signal.throwIfAborted();
  const { archive, shell } = snapshot;
  await store.putOnceWithObject<SnapshotRecord>(key, archive, (artifact) => ({ turn, replayMs, artifact, shell }));
}

/**
 * Makes the sandbox of `spec` from the attempt's last snapshot. Returns `undefined` if there is none, or if it does not
 * fit; else the turn after which it was taken.
 */
export async function fromSnapshot(
  attempt: Attempt,
  spec: SandboxSpec,
  { provider, store }: { readonly provider: SandboxProvider; readonly store: Store },
): Promise<{ readonly sandbox: Sandbox; readonly turn: number } | undefined> {
  const records = (await store.list<SnapshotRecord>(keys.snapshots(attempt))).map(({ value }) => value);
  const last = records.findLast((record) => 'artifact' in record);
  if (last === undefined || !('artifact' in last)) return undefined;
  const archive = await store.getObject(last.artifact);
  try {
    return { sandbox: await restoreSnapshot(provider, spec, { archive, shell: last.shell }), turn: last.turn };
  } catch (error) {
    if (error instanceof SandboxImpossible) return undefined;
    throw error;
  }
}
