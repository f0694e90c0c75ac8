/**
 * One optimizer update: `update(step, batch) -> version + 1`, once per step whatever is retried. The new weights are
 * complete before the result is recorded, and recorded before it is reported.
 */

import { type Patience, WORKER_PATIENCE } from '../../store/disk-patience.ts';
import type { Store } from '../../store/store.ts';
import type { UpdateInput, UpdateOutcome } from '../../protocol/update.ts';
import type { Backends } from '../backends/backend.ts';
import { NoValidRollouts } from '../failures.ts';
import type { OutcomeRecord, RunRecord, UpdateEntry } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { checkWorkersLost } from '../tries.ts';
import { type RolloutEnd, recordEnds } from '../../reports/rollout-ends.ts';
import { clearUpdates } from './sharded-update.ts';
import { stalenessOf } from './staleness.ts';
import { type TrainingData, trainingDataOf } from './training-data.ts';

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

const never = new AbortController().signal;

/** Makes the step's update once. `signal`: a backend's calls end with it. */
export async function updateOnce(
  input: UpdateInput,
  store: Store,
  backends: Backends,
  progress: (fraction: number) => void,
  { patience = WORKER_PATIENCE, signal = never }: { readonly patience?: Patience; readonly signal?: AbortSignal } = {},
): Promise<UpdateOutcome> {
  const { policy, step } = input;
  const version = policy.version + 1;
  const key = keys.update(input.run, step);
  // Reading the step may be what ends its workers: a step that is too large for their memory ends each of them.
  if ((await store.get(key)) === undefined) await checkWorkersLost(store);
  const prepared = await trainingDataOf(input, store);
  const backend = await backends.of(policy.uri, async () => (await store.get<RunRecord>(keys.run(input.run)))?.modules);
  let outcome = await store.get<UpdateEntry>(key);
  if (!outcome) {
    if (prepared.valid === 0 && !input.mayBeUngraded) {
      await recordEnds(store, endsOf(input, prepared, version));
      throw new NoValidRollouts(step, countBy(prepared.fates, 'masked'));
    }
    await store.begin(key);
    const made = await backend.update(input, prepared, { store, progress, patience, signal });
    const { loss, kl, entropy, gradNorm, clipFraction, trainedTokens, logprobDrift } = made.metrics;
    outcome = await store.putOnce<UpdateEntry>(key, {
      policy: made.policy,
      sha256: made.sha256,
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
        learningRate: made.learningRate,
        loss,
        kl,
        entropy,
        gradNorm,
        clipFraction,
        logprobDrift,
        staleness: stalenessOf(prepared.tokensByVersion, policy.version),
      },
      metrics: { ...prepared.metrics, ...made.metrics.metrics },
    });
  }
  await backend.checkRecorded(outcome);
  await recordEnds(store, endsOf(input, prepared, version));
  if (input.shards !== undefined) await clearUpdates(input.runDir, step);
  return { policy: outcome.policy, sha256: outcome.sha256, record: outcome.record };
}
