/** A version without an update: a step that taught nothing still ends with a complete checkpoint of its own. */

import { type Checkpoint, type CheckpointRecord, isMadeFrom, readCheckpointRecord, writeCheckpoint } from './checkpoint.ts';
import type { NewLora } from '../engine.ts';
import { newAdapter } from '../lora/new-adapter.ts';
import type { NamedTensor } from '../model/safetensors.ts';
import type { Weights } from '../model/weights.ts';
import { loadVerifiedWeights, readVerifiedConfig, readVerifiedOptimizer, readVerifiedPolicy, verifiedCriticDir } from './verified-checkpoint.ts';

const copied = (tensors: ReadonlyMap<string, NamedTensor>): Weights =>
  new Map([...tensors].map(([name, { shape, data }]) => [name, { shape: [...shape], data }]));

/** A critic that is there already; one that has not begun yet begins at the first update, from where it would have now. */
async function criticOf(fromDir: string, version: number): Promise<Checkpoint | undefined> {
  const dir = await verifiedCriticDir(fromDir);
  if (dir === undefined) return undefined;
  const optimizer = await readVerifiedOptimizer(dir);
  return { weights: await loadVerifiedWeights(dir), optimizer, step: version, version, fromDir: undefined, config: await readVerifiedConfig(dir) };
}

/**
 * Copies weights (an adapter's alone, where the policy is one) and optimizer state of `fromDir` to `toDir` as version
 * `version`; what is there already stays. With `lora` a policy that is none yet gets its new adapter now, so that its
 * base is never a checkpoint, which retention may remove. The critic goes along `withCritic`. `input` is
 * kept in its record.
 */
export async function carryOver(fromDir: string, toDir: string, version: number, lora?: NewLora, withCritic = false, input?: string): Promise<CheckpointRecord> {
  const there = await readCheckpointRecord(toDir);
  if (there && isMadeFrom(there, input)) return there;
  const [config, { weights, adapter: known }] = await Promise.all([readVerifiedConfig(fromDir), readVerifiedPolicy(fromDir)]);
  const fresh = known === undefined && lora !== undefined;
  const adapter = fresh ? newAdapter(config, lora, fromDir, lora.seed) : known;
  const { record } = await writeCheckpoint(toDir, {
    weights: adapter === undefined ? weights : copied(adapter.tensors),
    adapter: adapter?.json,
    optimizer: fresh ? undefined : await readVerifiedOptimizer(fromDir),
    step: version,
    version,
    fromDir,
    input,
    critic: withCritic ? await criticOf(fromDir, version) : undefined,
  });
  return record;
}
