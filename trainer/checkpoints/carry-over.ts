/** A version without an update: a step without training data still ends with its own complete checkpoint. */

import { type CheckpointRecord, isMadeFrom, readCheckpointRecord, writeCheckpoint } from './checkpoint.ts';
import { carriedCritic } from '../critic/critic-files.ts';
import type { NewCritic } from '../update-request.ts';
import type { NewLora } from '../../protocol/algorithm.ts';
import { newAdapter } from '../lora/new-adapter.ts';
import { asWeights } from '../model/weights.ts';
import { readVerifiedConfig, readVerifiedOptimizer, readVerifiedPolicy } from './verified-checkpoint.ts';

/**
 * Copies weights (only the adapter's if the policy is one), optimizer state and critic of `fromDir` to `toDir` as
 * version `version`. If `toDir` has the checkpoint already, it is not written again. With `lora`, a policy that is not
 * an adapter gets its new adapter now: otherwise its base would be a checkpoint, which retention may remove. The critic
 * is copied if `critic`, which describes a new one, is given. `input` is stored in the record.
 */
export async function carryOver(
  fromDir: string,
  toDir: string,
  version: number,
  lora?: NewLora,
  critic?: NewCritic,
  input?: string,
): Promise<CheckpointRecord> {
  const there = await readCheckpointRecord(toDir);
  if (there && isMadeFrom(there, input)) return there;
  const [config, { weights, adapter: known }] = await Promise.all([
    readVerifiedConfig(fromDir),
    readVerifiedPolicy(fromDir),
  ]);
  const fresh = known === undefined && lora !== undefined;
  const adapter = fresh ? newAdapter(config, lora, fromDir, lora.seed) : known;
  const { record } = await writeCheckpoint(toDir, {
    weights: adapter === undefined ? weights : asWeights(adapter.tensors),
    adapter: adapter?.json,
    optimizer: fresh ? undefined : await readVerifiedOptimizer(fromDir),
    step: version,
    version,
    fromDir,
    input,
    // A critic that does not exist yet is created by the first update, from the same start.
    critic: critic && (await carriedCritic({ beside: fromDir, begin: critic }, version)),
  });
  return record;
}
