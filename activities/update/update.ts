/**
 * One optimizer update: `update(step, batch) -> version + 1`, once per step whatever is retried. The new weights are
 * complete in their directory before the result is recorded, and recorded before it is reported.
 */

import { retryWhileDiskUnavailable, type Patience, WORKER_PATIENCE } from '../../store/disk-patience.ts';
import type { Store } from '../../store/store.ts';
import { carryOver } from '../../trainer/checkpoints/carry-over.ts';
import { isMadeFrom, readCheckpointRecord } from '../../trainer/checkpoints/checkpoint.ts';
import type { Engine } from '../../trainer/engine.ts';
import type { UpdateRequest } from '../../trainer/update-request.ts';
import type { UpdateMetrics } from '../../protocol/algorithm.ts';
import type { UpdateInput, UpdateOutcome } from '../../protocol/update.ts';
import { fileUri } from '../../protocol/policy-uri.ts';
import { NoValidRollouts } from '../failures.ts';
import { COEFFICIENT } from './kl-coefficient.ts';
import { keys, type OutcomeRecord, type UpdateEntry } from '../../protocol/records.ts';
import { checkWorkersLost } from '../tries.ts';
import { type RolloutEnd, recordEnds } from '../../reports/rollout-ends.ts';
import { roomForCheckpoint } from './check-disk-space.ts';
import { clearUpdates } from './sharded-update.ts';
import { cacheModulesOf } from '../../modules/import-bundle.ts';
import { stalenessOf } from './staleness.ts';
import { type TrainingData, trainingDataOf } from './training-data.ts';
import { checkPlace, clearOther } from './update-input.ts';
import { teaches, updateRequestOf } from './update-request.ts';

function endsOf(input: UpdateInput, { fates, outcomes }: TrainingData, version: number): RolloutEnd[] {
  const attempts = new Map(outcomes.map(({ rollout, attempt }) => [rollout, attempt]));
  const at = new Date().toISOString();
  return [...fates].map(([rollout, { event, reason }]) => ({
    run: input.run,
    rollout,
    attempt: attempts.get(rollout) ?? 1,
    event,
    at,
    detail: event === 'trained' ? `v${version}` : reason,
  }));
}

function countBy(fates: TrainingData['fates'], event: 'masked' | 'dropped'): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const fate of fates.values()) {
    if (fate.event === event) counts[fate.reason] = (counts[fate.reason] ?? 0) + 1;
  }
  return counts;
}

function mean(outcomes: readonly OutcomeRecord[], value: (outcome: OutcomeRecord) => number): number {
  return outcomes.length === 0 ? 0 : outcomes.reduce((sum, outcome) => sum + value(outcome), 0) / outcomes.length;
}

/** A step none of whose groups teaches anything: the policy continues unchanged under its next version. */
async function untaught({
  fromDir,
  toDir,
  toVersion,
  algorithm: { kl },
  critic,
  lora,
  input,
}: UpdateRequest): Promise<UpdateMetrics> {
  const { sha256 } = await carryOver(fromDir, toDir, toVersion, lora, critic, input);
  const nothing = { loss: 0, kl: 0, entropy: 0, gradNorm: 0, clipFraction: 0, trainedTokens: 0 };
  const metrics = kl === undefined ? {} : { [COEFFICIENT]: kl.coefficient };
  return { ...nothing, logprobDrift: { meanAbs: 0, maxAbs: 0 }, metrics, sha256 };
}

/** Errors: an `Error` if the activities before this one did not run, or their result was removed. */
async function checkMade({ step, shards }: UpdateInput, { toDir, input }: UpdateRequest): Promise<void> {
  const there = await readCheckpointRecord(toDir);
  if (there !== undefined && isMadeFrom(there, input)) return;
  throw new Error(
    `The update of step ${step} in ${shards} shards is not in ${toDir}: restore that folder, or start a run with another name`,
  );
}

export async function updateOnce(
  input: UpdateInput,
  store: Store,
  engine: Engine,
  progress: (fraction: number) => void,
  patience: Patience = WORKER_PATIENCE,
): Promise<UpdateOutcome> {
  const { policy, step } = input;
  const version = policy.version + 1;
  const key = keys.update(input.run, step);
  // Reading the step may be what ends its workers: a step that is too large for their memory ends each of them.
  if ((await store.get(key)) === undefined) await checkWorkersLost(store);
  const prepared = await trainingDataOf(input, store);
  let outcome = await store.get<UpdateEntry>(key);
  if (!outcome) {
    if (prepared.valid === 0 && !input.mayBeUngraded) {
      await recordEnds(store, endsOf(input, prepared, version));
      throw new NoValidRollouts(step, countBy(prepared.fates, 'masked'));
    }
    await store.begin(key);
    const request = await updateRequestOf(input, prepared, store);
    const { toDir } = request;
    await cacheModulesOf(input.run, store);
    const taught = teaches(prepared);
    const metrics = await retryWhileDiskUnavailable(toDir, patience, async () => {
      await clearOther(input, request, store);
      if (taught && input.shards !== undefined) await checkMade(input, request);
      else await roomForCheckpoint(request);
      return taught ? engine.update(request, progress) : untaught(request);
    });
    const { sha256, loss, kl, entropy, gradNorm, clipFraction, trainedTokens, logprobDrift } = metrics;
    outcome = await store.putOnce<UpdateEntry>(key, {
      policy: { uri: fileUri(toDir), version },
      sha256,
      ...(input.units ? { units: input.units } : {}),
      record: {
        step,
        policyVersion: version,
        rewardMean: mean(prepared.outcomes, (o) => o.reward ?? 0),
        passRate: mean(prepared.outcomes, (o) => Number(o.passed)),
        groups: prepared.groups,
        ...(prepared.groupRewards && { groupRewards: prepared.groupRewards }),
        valid: prepared.valid,
        masked: countBy(prepared.fates, 'masked'),
        dropped: countBy(prepared.fates, 'dropped'),
        sampledTokens: prepared.sampledTokens,
        trainedTokens,
        prefixBreaks: prepared.prefixBreaks,
        learningRate: request.algorithm.learningRate,
        loss,
        kl,
        entropy,
        gradNorm,
        clipFraction,
        logprobDrift,
        staleness: stalenessOf(prepared.tokensByVersion, policy.version),
      },
      metrics: { ...prepared.metrics, ...metrics.metrics },
    });
  }
  await checkPlace(outcome);
  await recordEnds(store, endsOf(input, prepared, version));
  if (input.shards !== undefined) await clearUpdates(input.runDir, step);
  return { policy: outcome.policy, sha256: outcome.sha256, record: outcome.record };
}
