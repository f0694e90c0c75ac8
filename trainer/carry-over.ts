/** A version without an update: a step that taught nothing still ends with a complete checkpoint of its own. */

import { type CheckpointRecord, readCheckpointRecord, writeCheckpoint } from './checkpoint.ts';
import { loadVerifiedWeights, readVerifiedOptimizer } from './verified-checkpoint.ts';

/** Copies weights and optimizer state of `fromDir` to `toDir` as version `version`; what is there already stays. */
export async function carryOver(fromDir: string, toDir: string, version: number): Promise<CheckpointRecord> {
  const there = await readCheckpointRecord(toDir);
  if (there) return there;
  const { record } = await writeCheckpoint(toDir, {
    weights: await loadVerifiedWeights(fromDir),
    optimizer: await readVerifiedOptimizer(fromDir),
    step: version,
    version,
    fromDir,
  });
  return record;
}
