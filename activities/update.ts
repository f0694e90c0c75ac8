/**
 * One optimizer update: `update(step, batch) -> version + 1`, once per step whatever is retried. The new weights are
 * complete in their directory before the result is recorded, and recorded before it is reported.
 */

import { patiently, type Patience, WORKER_PATIENCE } from '../store/patience.ts';
import type { Store } from '../store/store.ts';
import { carryOver } from '../trainer/carry-over.ts';
import { learningRateAt } from '../trainer/learning-rate.ts';
import type { Engine, NewLora, UpdateMetrics, UpdateRequest, UpdateSettings } from '../trainer/engine.ts';
import type { UpdateInput, UpdateOutcome } from '../workflows/types.ts';
import { NoValidRollouts } from './failures.ts';
import { COEFFICIENT, klCoefficientOf } from './algorithm/kl-coefficient.ts';
import { keys, type OutcomeRecord, type RunRecord, type UpdateEntry } from './records.ts';
import { type RolloutEnd, recordEnds } from './rollout-ends.ts';
import { roomForCheckpoint } from './room.ts';
import { checkpointDir } from './run-folder.ts';
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

/** A step whose groups all taught nothing: the policy goes on unchanged under its next version. */
async function untaught(fromDir: string, toDir: string, version: number, { kl, critic }: UpdateSettings, lora?: NewLora): Promise<UpdateMetrics> {
  const { sha256 } = await carryOver(fromDir, toDir, version, lora, critic !== undefined);
  const nothing = { loss: 0, kl: 0, entropy: 0, gradNorm: 0, clipFraction: 0, trainedTokens: 0 };
  const metrics = kl === undefined ? {} : { [COEFFICIENT]: kl.coefficient };
  return { ...nothing, logprobDrift: { meanAbs: 0, maxAbs: 0 }, metrics, sha256 };
}

type Learning = Pick<UpdateRequest, 'algorithm' | 'referenceDir' | 'critic'>;

/**
 * What the update learns by: the step's learning rates and weight of KL, the policy that KL is taken to, the run's base,
 * and what its critic began as.
 */
async function learning(input: UpdateInput, learningRate: number, store: Store): Promise<Learning> {
  const { kl, critic } = input.algorithm;
  const plain = { ...input.algorithm, learningRate };
  if (kl === undefined && critic === undefined) return { algorithm: plain };
  const run = await store.get<RunRecord>(keys.run(input.run));
  if (run === undefined) throw new Error(`Run ${input.run} is not in the store: its base policy is the reference, or what its critic began as`);
  const reference = kl && { referenceDir: run.policy.base };
  const begin = critic && { critic: { base: run.critic?.base ?? run.policy.base, seed: run.seed } };
  const algorithm = {
    ...plain,
    ...(kl && { kl: { ...kl, coefficient: await klCoefficientOf(kl, input, store) } }),
    ...(critic && { critic: { ...critic, learningRate: learningRateAt(critic, input.step - 1, input.steps) } }),
  };
  return { algorithm, ...reference, ...begin };
}

export async function updateOnce(
  input: UpdateInput,
  store: Store,
  engine: Engine,
  progress: (fraction: number) => void,
  patience: Patience = WORKER_PATIENCE,
): Promise<UpdateOutcome> {
  const { algorithm, policy, step } = input;
  const version = policy.version + 1;
  const prepared = await trainingDataOf(input, store);
  const key = keys.update(input.run, step);
  let outcome = await store.get<UpdateEntry>(key);
  if (!outcome) {
    if (prepared.valid === 0 && !input.mayBeUngraded) {
      await recordEnds(store, endsOf(input, prepared, version));
      throw new NoValidRollouts(step, countBy(prepared.fates, 'masked'));
    }
    await store.begin(key);
    const toDir = checkpointDir(input.runDir, step);
    const learningRate = learningRateAt(algorithm, step - 1, input.steps);
    const learn = await learning(input, learningRate, store);
    const lora = input.lora === undefined ? {} : { lora: input.lora };
    const metrics = await patiently(toDir, patience, async () => {
      await roomForCheckpoint(policy.dir, toDir, learn.critic?.base);
      return prepared.data.some(({ mask }) => mask.includes(1))
        ? engine.update({ fromDir: policy.dir, toDir, toVersion: version, data: prepared.data, ...learn, ...lora }, progress)
        : untaught(policy.dir, toDir, version, learn.algorithm, input.lora);
    });
    const { sha256, loss, kl, entropy, gradNorm, clipFraction, trainedTokens, logprobDrift } = metrics;
    outcome = await store.putOnce<UpdateEntry>(key, {
      policy: { dir: toDir, version },
      sha256,
      ...(input.units ? { units: input.units } : {}),
      record: {
        step,
        policyVersion: version,
        rewardMean: mean(prepared.outcomes, (o) => o.reward ?? 0),
        passRate: mean(prepared.outcomes, (o) => Number(o.passed)),
        groups: prepared.groups,
        valid: prepared.valid,
        masked: countBy(prepared.fates, 'masked'),
        dropped: countBy(prepared.fates, 'dropped'),
        sampledTokens: prepared.sampledTokens,
        trainedTokens,
        prefixBreaks: prepared.prefixBreaks,
        learningRate,
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
  await recordEnds(store, endsOf(input, prepared, version));
  return { policy: outcome.policy, sha256: outcome.sha256, record: outcome.record };
}
