/** A version without an update: a step that taught nothing still ends with a complete checkpoint of its own. */

import { type CheckpointRecord, readCheckpointRecord, writeCheckpoint } from './checkpoint.ts';
import type { NewLora } from './engine.ts';
import { newAdapter } from './lora/new-adapter.ts';
import { readModelConfig } from './model/describe-policy.ts';
import type { NamedTensor } from './model/safetensors.ts';
import type { Weights } from './model/weights.ts';
import { readVerifiedOptimizer, readVerifiedPolicy } from './verified-checkpoint.ts';

const copied = (tensors: ReadonlyMap<string, NamedTensor>): Weights =>
  new Map([...tensors].map(([name, { shape, data }]) => [name, { shape: [...shape], data }]));

/**
 * Copies weights (an adapter's alone, where the policy is one) and optimizer state of `fromDir` to `toDir` as version
 * `version`; what is there already stays. With `lora` a policy that is none yet gets its new adapter now, so that its
 * base is never a checkpoint, which retention may remove.
 */
export async function carryOver(fromDir: string, toDir: string, version: number, lora?: NewLora): Promise<CheckpointRecord> {
  const there = await readCheckpointRecord(toDir);
  if (there) return there;
  const { weights, adapter: known } = await readVerifiedPolicy(fromDir);
  const fresh = known === undefined && lora !== undefined;
  const adapter = fresh ? newAdapter(await readModelConfig(fromDir), lora, fromDir, lora.seed) : known;
  const { record } = await writeCheckpoint(toDir, {
    weights: adapter === undefined ? weights : copied(adapter.tensors),
    adapter: adapter?.json,
    optimizer: fresh ? undefined : await readVerifiedOptimizer(fromDir),
    step: version,
    version,
    fromDir,
  });
  return record;
}
