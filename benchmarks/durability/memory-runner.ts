/**
 * A training run without Temporal: the same loop, activities, engine and sandboxes, called one after the other in one
 * process. Its results are lost if that process ends.
 */

import { asyncLocalStorage, type Context } from '@temporalio/activity';
import {
  collectsWith,
  initialState,
  type LoopEvent,
  type LoopLimits,
  type LoopState,
  reduce,
  stageOf,
} from '../../workflows/rollout/rollout-loop.ts';
import { DEFAULT_AGENT, rolloutIds } from '../../protocol/rollout.ts';
import { tasksOfStep } from '../../workflows/training/step-tasks.ts';
import type {
  AgentRunActivities,
  GpuActivities,
  InitActivities,
  OrchestratorActivities,
  RewardActivities,
} from '../../protocol/activities.ts';
import type { PolicyRef } from '../../protocol/policy.ts';
import type { OpenedConfig } from '../../protocol/run-config.ts';
import type { CollectOutcome, SandboxRef } from '../../protocol/stages.ts';

export type Activities = InitActivities &
  GpuActivities &
  AgentRunActivities &
  RewardActivities &
  Pick<OrchestratorActivities, 'recordBatch'>;

interface Rollout {
  readonly config: OpenedConfig;
  readonly id: string;
  readonly task: string;
  readonly step: number;
  readonly sample: number;
  readonly policy: PolicyRef;
}

/** The state of one rollout. */
interface Held {
  sandbox?: SandboxRef;
  collected?: CollectOutcome;
}

function limitsOf({ agent }: OpenedConfig): LoopLimits {
  return { maxTurns: agent.maxTurns, maxAttempts: 3, maxRestores: 0 };
}

async function perform(state: LoopState, rollout: Rollout, held: Held, act: Activities): Promise<LoopEvent> {
  const { config, id, task, step, sample, policy } = rollout;
  const { agent, sampling, seed } = config;
  const attempt = { run: config.run, rollout: id, attempt: state.attempt, task };
  const sandbox = held.sandbox ?? { sandbox: '', host: '' };
  const { turn } = state;
  switch (state.phase) {
    case 'prepare':
      held.sandbox = (await act.prepare(attempt)).sandbox ?? { sandbox: '', host: '' };
      return { type: 'prepared' };
    case 'generate': {
      const noiseKey = `${seed}/${step}/${task}/${sample}/${turn}`;
      const { maxTurns, maxDepth, maxSegments } = { ...DEFAULT_AGENT, ...agent };
      const { kind, calls } = await act.generate({
        ...attempt,
        limits: { maxTurns, maxDepth, maxSegments },
        turn,
        policy,
        sampling,
        ...(agent.maxContextTokens !== undefined && { maxContextTokens: agent.maxContextTokens }),
        noiseKey,
      });
      return { type: 'generated', kind, calls };
    }
    case 'act': {
      const collect = collectsWith(state, limitsOf(config));
      const asked = {
        ...attempt,
        ...sandbox,
        turn,
        toolTimeoutSeconds: agent.toolTimeoutSeconds,
        ...(collect === undefined ? {} : { collect }),
      };
      const { unfinished = false, collected } = await act.agentRun(asked);
      if (collected) held.collected = collected;
      return { type: 'acted', unfinished, collected: collected !== undefined };
    }
    case 'collect':
      held.collected = await act.collect({ ...attempt, ...sandbox });
      return { type: 'collected' };
    default: {
      const artifact = held.collected?.artifact ?? 'sha256:';
      const verdict = await act.computeReward({
        ...attempt,
        artifact,
        finish: state.finish ?? 'max-turns',
        turns: turn,
      });
      return verdict.code === 'graded'
        ? { type: 'graded', reward: verdict.reward, passed: verdict.passed }
        : { type: 'failed', failure: 'grader-failed', message: verdict.reason };
    }
  }
}

async function runRollout(rollout: Rollout, act: Activities): Promise<void> {
  const limits = limitsOf(rollout.config);
  const held: Held = {};
  let state = initialState;
  while (stageOf(state) !== 'done') state = reduce(state, await perform(state, rollout, held, act), limits);
}

/** Runs all of `jobs`, `width` at a time. */
async function together(jobs: ReadonlyArray<() => Promise<void>>, width: number): Promise<void> {
  let next = 0;
  const lane = async () => {
    while (next < jobs.length) await jobs[next++]?.();
  };
  await Promise.all(Array.from({ length: Math.min(width, jobs.length) }, lane));
}

/** Runs `body` with a context for activities, whose heartbeats are ignored. */
export function outsideTemporal<T>(body: () => Promise<T>): Promise<T> {
  const context = { info: {}, heartbeat: () => undefined, cancellationSignal: new AbortController().signal };
  return asyncLocalStorage.run(context as unknown as Context, body);
}

/** Runs the steps of `config` and returns the last policy's digest. Errors: those of the activities. */
export function trainInMemory(config: OpenedConfig, runDir: string, act: Activities): Promise<string> {
  const { run, batch, dispatcher } = config;
  return outsideTemporal(async () => {
    let policy: PolicyRef = { uri: config.policy.base, version: 0 };
    let sha256: string | null = '';
    for (let step = 1; step <= config.steps; step += 1) {
      const { tasks } = tasksOfStep(config, step);
      const name = `train/${run}/step-${step}`;
      const jobs = rolloutIds(name, tasks, batch.samples).map((id, i) => {
        const rollout = {
          config,
          id,
          task: tasks[Math.floor(i / batch.samples)] ?? '',
          step,
          sample: i % batch.samples,
          policy,
        };
        return () => runRollout(rollout, act);
      });
      await together(jobs, dispatcher.maxParallelAgents ?? jobs.length);
      await act.recordBatch({ run, batch: name, tasks, samples: batch.samples });
      const update = {
        run,
        runDir,
        step,
        steps: config.steps,
        batches: [name],
        samples: batch.samples,
        policy,
        algorithm: config.algorithm,
      };
      ({ policy, sha256 } = await act.update(update));
    }
    return sha256 ?? '';
  });
}
