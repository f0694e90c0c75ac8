/**
 * Activities of a run that only sleep, for the mix's times of a rollout and an update. They record when updates ended
 * and how many rollouts ran at once; the workflows above them are the real ones.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { withHeartbeat } from '../../activities/heartbeat.ts';
import type {
  GpuActivities,
  InitActivities,
  OrchestratorActivities,
  RewardActivities,
} from '../../protocol/activities.ts';
import { hostQueue, QUEUES } from '../../protocol/queues.ts';
import type { OpenedConfig } from '../../protocol/run-config.ts';
import type { UpdateInput, UpdateOutcome } from '../../protocol/update.ts';
import { idleAgent } from '../empty-parts.ts';
import { type AsyncMix, durationOf } from './mix.ts';

const HOST = 'bench-host';

/** One run of the bench. */
export interface AsyncJob {
  readonly mix: AsyncMix;
  readonly config: OpenedConfig;
  /** When the first training rollout started and the last update ended, in seconds from an arbitrary zero. */
  begun?: number;
  ended?: number;
  running: number;
  peak: number;
}

const EVALUATION = { passRate: 0, greedyPassRate: null, rollouts: 0, byFamily: {} };
const NOTHING = {
  rewardMean: 0,
  passRate: 0,
  groups: 1,
  valid: 1,
  masked: {},
  dropped: {},
  sampledTokens: 0,
  trainedTokens: 0,
  prefixBreaks: 0,
  learningRate: 0,
  loss: 0,
  kl: 0,
  entropy: 0,
  gradNorm: 0,
  logprobDrift: { meanAbs: 0, maxAbs: 0 },
};

const seconds = () => performance.now() / 1000;

async function sample(job: AsyncJob, rollout: string, scale: number, signal: AbortSignal): Promise<void> {
  const [, , batch = '', task = '', k = ''] = rollout.split('/');
  if (batch.startsWith('eval-')) return;
  job.begun ??= seconds();
  job.running += 1;
  job.peak = Math.max(job.peak, job.running);
  try {
    await sleep(durationOf(job.mix, task, Number(k)) * scale * 1000, undefined, { signal });
  } finally {
    job.running -= 1;
  }
}

async function update(
  job: AsyncJob,
  { step, policy }: UpdateInput,
  scale: number,
  signal: AbortSignal,
): Promise<UpdateOutcome> {
  await sleep(job.mix.update * scale * 1000, undefined, { signal });
  job.ended = seconds();
  const version = policy.version + 1;
  return {
    policy: { uri: 'file:///empty', version },
    sha256: '',
    record: { step, policyVersion: version, ...NOTHING },
  };
}

/** `jobs`: by the names of their runs; `scale`: seconds per unit of a mix. */
export function sleepingRun(jobs: ReadonlyMap<string, AsyncJob>, scale: number): Record<string, object> {
  const jobOf = (run: string) => {
    const job = jobs.get(run);
    if (!job) throw new Error(`${run} is not a run of this bench`);
    return job;
  };
  const made: InitActivities['restoreSandbox'] = async ({ rollout }) => ({
    sandbox: { sandbox: rollout, host: HOST },
    gradedIn: 'fresh',
  });
  const init: InitActivities = {
    prepare: (attempt) => made({ ...attempt, restore: 0, toolTimeoutSeconds: 1 }),
    restoreSandbox: made,
  };
  const gpu: GpuActivities = {
    openEngine: async () => ({ kinds: {} }),
    checkEndpoint: async () => undefined,
    generate: async ({ run, rollout }) => {
      await withHeartbeat((signal) => sample(jobOf(run), rollout, scale, signal));
      return { kind: 'finish', calls: 0, contextTokens: 0, sampledTokens: 0, line: 'slept' };
    },
    update: (input) => withHeartbeat((signal) => update(jobOf(input.run), input, scale, signal)),
  };
  const reward: RewardActivities = {
    computeReward: async () => ({ code: 'graded', reward: 1, passed: true, reason: '' }),
  };
  const orchestrator: OrchestratorActivities = {
    openRun: async (_given, run) => ({
      config: jobOf(run).config,
      runDir: '/none',
      policy: { uri: 'file:///empty', version: 0 },
    }),
    recordChanges: async () => undefined,
    recordDispatched: async () => undefined,
    recordBatch: async () => undefined,
    recordFailures: async () => undefined,
    summariseEvaluation: async () => EVALUATION,
    recordStep: async () => undefined,
    recordEvaluation: async () => undefined,
    closeRun: async () => undefined,
  };
  return {
    [QUEUES.init]: init,
    [QUEUES.gpu]: gpu,
    [hostQueue(HOST)]: idleAgent,
    [QUEUES.reward]: reward,
    [QUEUES.orchestrator]: orchestrator,
  };
}
