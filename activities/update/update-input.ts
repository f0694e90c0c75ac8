/**
 * A name for what an update is made from: the checkpoint that it starts with, every rollout and whether it is trained
 * on, and how it learns. A checkpoint of the same step with another name, or none, was made from something else.
 */

import { createHash } from 'node:crypto';
import type { Store } from '../../store/store.ts';
import { isMadeFrom, readCheckpointRecord, removeCheckpoint } from '../../trainer/checkpoints/checkpoint.ts';
import { CheckpointTorn, readVerifiedRecord } from '../../trainer/checkpoints/verified-checkpoint.ts';
import type { UpdateRequest } from '../../trainer/update-request.ts';
import type { UpdateInput } from '../../protocol/update.ts';
import { pathOf } from '../../protocol/policy-uri.ts';
import type { UpdateEntry } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import type { TrainingData } from './training-data.ts';

/** SHA-256, as hexadecimal digits. Errors: `CheckpointTorn`. */
export async function nameOfInput(
  { policy, shards, wanted, replace }: Pick<UpdateInput, 'policy' | 'shards' | 'wanted' | 'replace'>,
  { fates, outcomes }: Pick<TrainingData, 'fates' | 'outcomes'>,
  { toVersion, algorithm, referenceDir, critic, lora }: Omit<UpdateRequest, 'data'>,
): Promise<string> {
  const dir = pathOf(policy.uri);
  const from = (await readVerifiedRecord(dir))?.sha256 ?? dir;
  const attempts = new Map(outcomes.map(({ rollout, attempt }) => [rollout, attempt]));
  const rollouts = [...fates].map(([rollout, { event, reason }]) => [
    rollout,
    attempts.get(rollout) ?? 0,
    event,
    reason,
  ]);
  const learning = { toVersion, algorithm, referenceDir, critic, lora, shards, wanted, replace };
  return createHash('sha256').update(JSON.stringify({ from, rollouts, learning })).digest('hex');
}

/** The name of what an attempt saves: no other attempt has it. `own` is of this attempt alone. */
export const nameOfAttempt = ({ run, step }: Pick<UpdateInput, 'run' | 'step'>, own: string): string =>
  `${run}/step-${step}/${own}`;

/**
 * Removes the checkpoint that another update has left in this one's place, unless an update of this step is recorded.
 */
export async function clearOther(
  { run, step }: Pick<UpdateInput, 'run' | 'step'>,
  { toDir, input }: Pick<UpdateRequest, 'toDir' | 'input'>,
  store: Store,
): Promise<void> {
  const there = await readCheckpointRecord(toDir);
  if (there === undefined || isMadeFrom(there, input)) return;
  if ((await store.get(keys.update(run, step))) === undefined) await removeCheckpoint(toDir);
}

/**
 * Two updates of one step may run at the same time, from different rollouts: only the recorded one may be used. Errors:
 * `CheckpointTorn`.
 */
export async function checkPlace({ policy: { uri }, sha256 }: Pick<UpdateEntry, 'policy' | 'sha256'>): Promise<void> {
  const dir = pathOf(uri);
  const there = await readCheckpointRecord(dir);
  if (there !== undefined && there.sha256 !== sha256)
    throw new CheckpointTorn(dir, `its weights are ${there.sha256}, but the recorded ones are ${sha256}`);
}
