/** A version without an update: a step that taught nothing still ends with a complete checkpoint of its own. */

import { type CheckpointRecord, isMadeFrom, readCheckpointRecord, writeCheckpoint } from './checkpoint.ts';
import { carriedCritic } from '../critic/critic-files.ts';
import type { NewCritic } from '../update-request.ts';
import type { NewLora } from '../../protocol/algorithm.ts';
import { newAdapter } from '../lora/new-adapter.ts';
import { asWeights } from '../model/weights.ts';
import { readVerifiedConfig, readVerifiedOptimizer, readVerifiedPolicy } from './verified-checkpoint.ts';

/**
 * Copies weights (an adapter's alone, where the policy is one) and optimizer state of `fromDir` to `toDir` as version
 * `version`; what is there already stays. With `lora` a policy that is none yet gets its new adapter now, so that its
 * base is never a checkpoint, which retention may remove; a critic too, by the `lora` of its own. It goes along where
 * `critic` says how it would have begun. `input` is kept in the record.
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
    // One that has not begun yet begins at the first update, from where it would have now.
    critic: critic && (await carriedCritic({ beside: fromDir, begin: critic }, version)),
  });
  return record;
}
