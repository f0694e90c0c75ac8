/**
 * Snapshots of an attempt's sandboxes, so that lost ones are not restored by minutes of repeated calls: one is taken
 * after a turn when the calls since the last one took long. It has all sandboxes of the task, each as it was after that
 * turn, or it is not recorded. All are restored from it, or none.
 */

import { anyInSandbox } from '../../agents/mcp/server.ts';
import type { ActRecord, SnapshotPart, SnapshotRecord } from '../../protocol/records.ts';
import { attemptKey, keys } from '../../protocol/record-keys.ts';
import type { Attempt } from '../../protocol/stages.ts';
import {
  type Sandbox,
  SandboxImpossible,
  type SandboxProvider,
  type SandboxSpec,
  SandboxUnavailable,
} from '../../sandboxes/sandbox.ts';
import { isRestored, MOST_BYTES, restoreSnapshot, takeSnapshot } from '../../sandboxes/snapshot.ts';
import { workspaceDigest } from '../../sandboxes/workspace-digest.ts';
import { lastActBefore } from '../../store/read-records.ts';
import type { Store } from '../../store/store.ts';
import { MAIN, type Task } from '../../tasks/environment.ts';
import { closeAll, type TaskSandboxes, type TaskSpecs } from '../task-sandboxes.ts';

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

/** Their digests by name; or the name of one that has none. */
async function digestsOf(sandboxes: TaskSandboxes, callId: string): Promise<ReadonlyMap<string, string> | string> {
  const digests = new Map<string, string>();
  for (const [name, sandbox] of Object.entries(sandboxes)) {
    const digest = await workspaceDigest(sandbox, `${callId}/${name}`);
    if (digest === undefined) return name;
    digests.set(name, digest);
  }
  return digests;
}

/** The sandbox of this name as a part of the snapshot, or why it has none. */
async function partOf(name: string, sandbox: Sandbox, task: Task, callId: string) {
  const request = task.sandboxes?.[name];
  if (request === undefined) return `the task has no sandbox ${name}`;
  try {
    return await takeSnapshot(sandbox, request, callId);
  } catch (error) {
    // It is no fault of the turn, which is recorded.
    if (error instanceof SandboxUnavailable || error instanceof SandboxImpossible) return error.message;
    throw error;
  }
}

/** A worker that was frozen may read sandboxes in which the next turn has begun. That is no reason to record. */
const CHANGED = 'a sandbox changed while it was read';

interface Taken {
  readonly archive: Uint8Array;
  readonly parts: readonly SnapshotPart[];
}

/** Returns why there is no snapshot. `main` has the turn's digest before and after, and the others one of their own. */
async function takeAll(task: Task, sandboxes: TaskSandboxes, digest: string, callId: string): Promise<Taken | string> {
  const before = await digestsOf(sandboxes, `${callId}/before`);
  if (typeof before === 'string') return `the workspace of ${before} has no digest`;
  const archives: Uint8Array[] = [];
  const parts: SnapshotPart[] = [];
  let total = 0;
  for (const [name, sandbox] of Object.entries(sandboxes)) {
    const part = await partOf(name, sandbox, task, name === MAIN ? callId : `${callId}/${name}`);
    if (typeof part === 'string') return name === MAIN ? part : `${name}: ${part}`;
    const { archive, ...more } = part;
    total += archive.length;
    if (total > MOST_BYTES) return `its sandboxes have more than ${MOST_BYTES} bytes together`;
    archives.push(archive);
    parts.push({ name, bytes: archive.length, digest: before.get(name) ?? '', ...more });
  }
  const after = await digestsOf(sandboxes, `${callId}/after`);
  const changed = parts.find(({ name, digest: was }) => typeof after === 'string' || after.get(name) !== was);
  if (changed !== undefined || before.get(MAIN) !== digest) return CHANGED;
  return { archive: Buffer.concat(archives), parts };
}

/** After a turn that was recorded: takes a snapshot if the calls since the last one took longer than `afterMs`. */
export async function snapshotIfLong(
  { attempt, turn, record }: { readonly attempt: Attempt; readonly turn: number; readonly record: ActRecord },
  task: Task,
  sandboxes: TaskSandboxes,
  { store, signal, afterMs = SNAPSHOT_AFTER_MS }: { store: Store; signal: AbortSignal; afterMs?: number | undefined },
): Promise<void> {
  const { replayMs = 0, digest } = record;
  const isWhole = Object.keys(task.sandboxes ?? {}).every((name) => sandboxes[name] !== undefined);
  if (replayMs < afterMs || digest === undefined || anyInSandbox(task.mcp) || !isWhole) return;
  if (replayMs - ((await latest(attempt, store))?.replayMs ?? 0) < afterMs) return;
  const taken = await takeAll(task, sandboxes, digest, `${attemptKey(attempt)}/${turn}/snapshot`);
  signal.throwIfAborted();
  // Nothing acts after a turn before the next one is generated: so nothing has acted since this one.
  if (taken === CHANGED || (await store.get(keys.generate(attempt, turn + 1))) !== undefined) return;
  const key = keys.snapshot(attempt, turn);
  if (typeof taken === 'string') {
    await store.putOnce<SnapshotRecord>(key, { turn, replayMs, none: taken });
    return;
  }
  const { archive, parts } = taken;
  await store.putOnceWithObject<SnapshotRecord>(key, archive, (artifact) => ({ turn, replayMs, artifact, parts }));
}

interface SnapshotPlace {
  readonly provider: SandboxProvider;
  readonly store: Store;
}

/** Restores one sandbox. Errors: those of `restoreSnapshot`; `SandboxImpossible` if it is not as it was. */
async function restorePart(
  { name, digest, shell, removed = [] }: SnapshotPart,
  archive: Uint8Array,
  spec: SandboxSpec,
  provider: SandboxProvider,
): Promise<Sandbox> {
  return restoreSnapshot(provider, spec, { archive, shell, removed }, async (sandbox) => {
    if ((await workspaceDigest(sandbox, 'longhaul:restored-digest')) === digest) return;
    throw new SandboxImpossible(`snapshot of ${name}: ${sandbox.id} has another workspace than it had`);
  });
}

async function destroyAll(specs: TaskSpecs, provider: SandboxProvider): Promise<void> {
  // Those that joined a network before its first one.
  for (const { id } of [...specs.values()].toReversed()) await provider.destroy(id);
}

/**
 * Makes the sandboxes of `specs` from the attempt's last snapshot. If an earlier execution left only some of them, none
 * of these is used: some may be further than others. Returns `undefined` if there is no snapshot, or if it does not
 * fit; else the turn after which it was taken.
 */
export async function fromSnapshot(
  attempt: Attempt,
  specs: TaskSpecs,
  { provider, store }: SnapshotPlace,
): Promise<{ readonly sandboxes: TaskSandboxes; readonly turn: number } | undefined> {
  const records = (await store.list<SnapshotRecord>(keys.snapshots(attempt))).map(({ value }) => value);
  // One without parts is from before there were several.
  const last = records.findLast((record) => 'artifact' in record && 'parts' in record);
  if (last === undefined || !('artifact' in last)) return undefined;
  const archive = await store.getObject(last.artifact);
  const there = await Promise.all([...specs.values()].map(({ id }) => isRestored(provider, id)));
  if (!there.every(Boolean)) await destroyAll(specs, provider);
  const sandboxes: Record<string, Sandbox> = {};
  let from = 0;
  try {
    if (last.parts.length !== specs.size) throw new SandboxImpossible('snapshot: the task has other sandboxes');
    for (const part of last.parts) {
      const spec = specs.get(part.name);
      if (spec === undefined) throw new SandboxImpossible(`snapshot: the task has no sandbox ${part.name}`);
      const own = archive.subarray(from, from + part.bytes);
      sandboxes[part.name] = await restorePart(part, own, spec, provider);
      from += part.bytes;
    }
    return { sandboxes, turn: last.turn };
  } catch (error) {
    closeAll(sandboxes);
    if (!(error instanceof SandboxImpossible)) throw error;
    await destroyAll(specs, provider);
    return undefined;
  }
}
