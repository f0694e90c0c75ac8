/** Snapshots whose pieces are held in memory, for tests that look at them. */

import type { Sandbox } from '../../sandboxes/sandbox.ts';
import type { Places } from '../../sandboxes/snapshot-archive.ts';
import { type SnapshotState, takeSnapshot } from '../../sandboxes/snapshot.ts';

export interface HeldSnapshot extends SnapshotState {
  readonly pieces: readonly Uint8Array[];
  readonly bytes: number;
}

/** Returns a reason if there is none. Errors: those of `takeSnapshot`. */
export async function snapshotOf(
  sandbox: Sandbox,
  places: Places,
  callId: string,
  maxBytes = 60_000_000,
): Promise<HeldSnapshot | string> {
  const pieces: Uint8Array[] = [];
  const taken = await takeSnapshot(sandbox, places, callId, { maxBytes }, async (piece) => {
    pieces.push(piece);
    await Promise.resolve();
  });
  return typeof taken === 'string' ? taken : { ...taken, pieces };
}
