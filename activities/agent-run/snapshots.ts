/**
 * Snapshots of an attempt's sandboxes, so that lost ones are not restored by minutes of repeated calls: one is taken
 * after a turn when the calls since the last one took long. It has all sandboxes of the task, each as it was after that
 * turn, or it is not recorded. All are restored from it, or none.
 */

import { randomUUID } from 'node:crypto';
import { anyInSandbox } from '../../agents/mcp/server.ts';
import type { ActRecord, ObjectRecord, SnapshotPart, SnapshotRecord } from '../../protocol/records.ts';
import { attemptKey, keys } from '../../protocol/record-keys.ts';
import type { Attempt, ObjectRef } from '../../protocol/stages.ts';
import {
  type Sandbox,
  SandboxImpossible,
  type SandboxProvider,
  type SandboxSpec,
  SandboxUnavailable,
} from '../../sandboxes/sandbox.ts';
import { PACK_MS, SNAPSHOT_MIB } from '../../sandboxes/snapshot-archive.ts';
import { isRestored, restoreSnapshot, takeSnapshot } from '../../sandboxes/snapshot.ts';
import { workspaceDigest } from '../../sandboxes/workspace-digest.ts';
import { lastActBefore } from '../../store/read-records.ts';
import type { Store } from '../../store/store.ts';
import { MAIN, type Task } from '../../tasks/environment.ts';
import { closeAll, type TaskSandboxes, type TaskSpecs } from '../task-sandboxes.ts';

/** How long the calls since the last snapshot may take when they are run again. */
export const SNAPSHOT_AFTER_MS = 180_000;
/** After a snapshot of more bytes the next one waits longer, in proportion. */
const USUAL_BYTES = 60_000_000;

export interface SnapshotSettings {
  readonly afterMs?: number | undefined;
  /** At most; 0: none is taken. */
  readonly mib?: number | undefined;
}

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

/** A worker that was frozen may read sandboxes in which the next turn has begun. That is no reason to record. */
const CHANGED = 'a sandbox changed while it was read';

/** One try to take a snapshot. */
class Taking {
  readonly parts: SnapshotPart[] = [];
  bytes = 0;
  readonly #attempt: Attempt;
  readonly #store: Store;
  readonly #maxBytes: number;
  /** Of this try alone: an execution that continues after another began reads nothing of it. */
  readonly #id = randomUUID();
  readonly #callId: string;
  /** Of all sandboxes: the turn's activity has ten minutes beside its calls. */
  readonly #deadline = Date.now() + PACK_MS;

  constructor(attempt: Attempt, turn: number, store: Store, maxBytes: number) {
    this.#attempt = attempt;
    this.#store = store;
    this.#maxBytes = maxBytes;
    this.#callId = `${attemptKey(attempt)}/${turn}/snapshot/${this.#id}`;
  }

  /** Returns why there is none. `main` has the turn's digest before and after, and the others one of their own. */
  async take(task: Task, sandboxes: TaskSandboxes, digest: string, signal: AbortSignal): Promise<string | undefined> {
    const before = await digestsOf(sandboxes, `${this.#callId}/before`);
    if (typeof before === 'string') return `the workspace of ${before} has no digest`;
    for (const [name, sandbox] of Object.entries(sandboxes)) {
      const reason = await this.#takePart(name, sandbox, { task, digest: before.get(name) ?? '', signal });
      if (reason !== undefined) return name === MAIN ? reason : `${name}: ${reason}`;
    }
    const after = await digestsOf(sandboxes, `${this.#callId}/after`);
    const changed = this.parts.find(({ name, digest: was }) => typeof after === 'string' || after.get(name) !== was);
    return changed !== undefined || before.get(MAIN) !== digest ? CHANGED : undefined;
  }

  async #takePart(
    name: string,
    sandbox: Sandbox,
    { task, digest, signal }: { readonly task: Task; readonly digest: string; readonly signal: AbortSignal },
  ): Promise<string | undefined> {
    const request = task.sandboxes?.[name];
    if (request === undefined) return `the task has no sandbox ${name}`;
    const pieces: ObjectRef[] = [];
    const withinMs = Math.max(0, this.#deadline - Date.now());
    const bounds = { maxBytes: this.#maxBytes - this.bytes, withinMs };
    try {
      const taken = await takeSnapshot(sandbox, request, `${this.#callId}/${name}`, bounds, async (piece) => {
        signal.throwIfAborted();
        this.bytes += piece.length;
        const key = keys.snapshotPiece(this.#attempt, this.#id, name, pieces.length);
        const { artifact } = await this.#store.putOnceWithObject<ObjectRecord>(key, piece, (ref) => ({
          artifact: ref,
        }));
        pieces.push(artifact);
      });
      if (typeof taken === 'string') return taken;
      const { shell, removed } = taken;
      this.parts.push({ name, pieces, digest, shell, ...(removed && { removed }) });
      return undefined;
    } catch (error) {
      // It is no fault of the turn, which is recorded.
      if (error instanceof SandboxUnavailable || error instanceof SandboxImpossible) return error.message;
      throw error;
    }
  }
}

/**
 * True if calls of `sinceMs` are worth a snapshot after `last`. What is written in an hour is bounded so, however large
 * a workspace is.
 */
export function isWorth(sinceMs: number, last: SnapshotRecord | undefined, afterMs: number): boolean {
  return sinceMs >= afterMs * Math.max(1, (last?.bytes ?? 0) / USUAL_BYTES);
}

/** After a turn that was recorded: takes a snapshot if the calls since the last one took longer than `afterMs`. */
export async function snapshotIfLong(
  { attempt, turn, record }: { readonly attempt: Attempt; readonly turn: number; readonly record: ActRecord },
  task: Task,
  sandboxes: TaskSandboxes,
  {
    store,
    signal,
    afterMs = SNAPSHOT_AFTER_MS,
    mib = SNAPSHOT_MIB,
  }: SnapshotSettings & { readonly store: Store; readonly signal: AbortSignal },
): Promise<void> {
  const { replayMs = 0, digest } = record;
  const isWhole = Object.keys(task.sandboxes ?? {}).every((name) => sandboxes[name] !== undefined);
  if (mib === 0 || replayMs < afterMs || digest === undefined || anyInSandbox(task.mcp) || !isWhole) return;
  const last = await latest(attempt, store);
  if (!isWorth(replayMs - (last?.replayMs ?? 0), last, afterMs)) return;
  const taking = new Taking(attempt, turn, store, mib * 2 ** 20);
  const none = await taking.take(task, sandboxes, digest, signal);
  signal.throwIfAborted();
  // Nothing acts after a turn before the next one is generated: so nothing has acted since this one.
  if (none === CHANGED || (await store.get(keys.generate(attempt, turn + 1))) !== undefined) return;
  const { parts, bytes } = taking;
  const common = { turn, replayMs, bytes };
  const key = keys.snapshot(attempt, turn);
  await store.putOnce<SnapshotRecord>(key, none === undefined ? { ...common, parts } : { ...common, none });
}

interface SnapshotPlace {
  readonly provider: SandboxProvider;
  readonly store: Store;
}

/** One after the other: they are large. Errors: those of `getObject`. */
async function* piecesOf({ pieces }: SnapshotPart, store: Store): AsyncIterable<Uint8Array> {
  for (const piece of pieces) yield await store.getObject(piece);
}

/** Restores one sandbox. Errors: those of `restoreSnapshot`; `SandboxImpossible` if it is not as it was. */
async function restorePart(
  part: SnapshotPart,
  spec: SandboxSpec,
  { provider, store }: SnapshotPlace,
): Promise<Sandbox> {
  const { name, digest, shell, removed = [] } = part;
  return restoreSnapshot(provider, spec, { pieces: piecesOf(part, store), shell, removed }, async (sandbox) => {
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
  // One whose parts have no pieces is of an earlier form.
  const last = records.findLast((record) => 'parts' in record && record.parts.every((part) => 'pieces' in part));
  if (last === undefined || !('parts' in last)) return undefined;
  const there = await Promise.all([...specs.values()].map(({ id }) => isRestored(provider, id)));
  if (!there.every(Boolean)) await destroyAll(specs, provider);
  const sandboxes: Record<string, Sandbox> = {};
  try {
    if (last.parts.length !== specs.size) throw new SandboxImpossible('snapshot: the task has other sandboxes');
    for (const part of last.parts) {
      const spec = specs.get(part.name);
      if (spec === undefined) throw new SandboxImpossible(`snapshot: the task has no sandbox ${part.name}`);
      sandboxes[part.name] = await restorePart(part, spec, { provider, store });
    }
    return { sandboxes, turn: last.turn };
  } catch (error) {
    closeAll(sandboxes);
    if (!(error instanceof SandboxImpossible)) throw error;
    await destroyAll(specs, provider);
    return undefined;
  }
}
