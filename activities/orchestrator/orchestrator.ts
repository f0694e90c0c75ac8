/** The `orchestrator` queue: bookkeeping of runs. An activity that runs twice leaves the same records and files. */

import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { RolloutEvent, Store } from '../../store/store.ts';
import type { OrchestratorActivities, StepToRecord } from '../../protocol/activities.ts';
import { rolloutIds, type RolloutResult } from '../../protocol/rollout.ts';
import type { ObjectRef } from '../../protocol/stages.ts';
import { withFailureMapping } from '../failure-mapping.ts';
import { withHeartbeat } from '../heartbeat.ts';
import { learningCurve } from '../../reports/learning-curve.ts';
import { type OpenRunDeps, openRun } from './open-run.ts';
import {
  type BatchManifest,
  batchesOf,
  type EvaluationEntry,
  type OutcomeRecord,
  type StepEntry,
} from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { recordEnds, unfinishedOf } from '../../reports/rollout-ends.ts';
import { refusePruned } from './prune-records.ts';
import { goOn, recordEndOfRun, wentOnAt } from '../../reports/run-end.ts';
import { writeChanges, writeRunFiles } from './run-folder.ts';
import { checkpointDir, type TemporalPlace } from '../../reports/run-summary.ts';
import { RunTallies } from '../../reports/run-tally.ts';
import { clearUpdates } from '../update/sharded-update.ts';
import { summariseEvaluation } from './summarise-evaluation.ts';
import { writeTrajectories } from '../../reports/trajectories.ts';
import { removeLeftovers, writeAtomically } from '../../store/atomic-write.ts';

export interface OrchestratorDeps extends OpenRunDeps {
  readonly temporal: TemporalPlace;
}

/**
 * Bookkeeping of a long run reads much: missing heartbeats reveal a dead worker long before the activity's time limit.
 */
function withMappingAndHeartbeat<T>(body: () => Promise<T>): Promise<T> {
  return withFailureMapping(() => withHeartbeat(body));
}

function now(): string {
  return new Date().toISOString();
}

async function recordFailures(
  failures: readonly RolloutResult[],
  catalog: ObjectRef | undefined,
  store: Store,
): Promise<void> {
  for (const { rollout, task, attempt, turns, finish, failure, message } of failures) {
    await store.putOnce<OutcomeRecord>(keys.outcome(rollout), {
      rollout,
      task,
      ...(catalog && { catalog }),
      attempt,
      turns,
      status: 'failed',
      reward: null,
      passed: false,
      finish: finish ?? null,
      failure: failure ?? 'internal',
      reason: message ?? '',
    });
  }
}

/**
 * A completed run drops the rollouts that no step waits for: those of these batches, and those that were dispatched
 * before the run was last started again after an end. Any other rollout without an end is lost.
 */
async function dropUntrained(run: string, untrained: readonly string[], store: Store): Promise<void> {
  const wentOn = await wentOnAt(run, store);
  const isMeant = ({ rollout, at }: RolloutEvent) =>
    (wentOn !== undefined && at < wentOn) || untrained.some((batch) => rollout.startsWith(`${batch}/`));
  const open = unfinishedOf(await store.events(run)).filter(isMeant);
  const at = now();
  await recordEnds(
    store,
    open.map(({ rollout, attempt }) => ({
      run,
      rollout,
      attempt,
      event: 'dropped' as const,
      at,
      detail: 'run-completed',
    })),
  );
}

/** The oldest policy version that is sampled after `step`: the current one, or that of a running rollout. */
function oldestInUse(step: number, overlap: StepToRecord['overlap']): number {
  return Math.min(step, ...(overlap?.running ?? []).map(({ policy }) => policy.version));
}

/**
 * Removes checkpoints that are not to be kept, except those from `oldest` on and the one from which `oldest` was made.
 */
async function pruneCheckpoints(run: string, runDir: string, oldest: number, store: Store): Promise<void> {
  const entries = await store.list<StepEntry>(`step:${run}/`);
  for (const { value } of entries) {
    const old = value.record.step;
    if (!value.keep && old < oldest - 1) await rm(checkpointDir(runDir, old), { recursive: true, force: true });
  }
}

export function createOrchestratorActivities(deps: OrchestratorDeps): OrchestratorActivities {
  const { store, temporal } = deps;
  const tallies = new RunTallies(store);
  const writeFiles = (run: string, runDir: string) => writeRunFiles(run, runDir, store, temporal, tallies);
  return {
    openRun: (given, run, execution) =>
      withMappingAndHeartbeat(async () => {
        const opened = await openRun(given, run, deps);
        await refusePruned(opened.config.run, store);
        const goesOn = await goOn(opened.config.run, execution, store);
        // The run may have been pruned meanwhile.
        await refusePruned(opened.config.run, store);
        if (goesOn) await writeFiles(opened.config.run, opened.runDir);
        return opened;
      }),

    recordChanges: ({ run, runDir, key, changes }) =>
      withMappingAndHeartbeat(async () => {
        await store.putOnce(keys.changes(run, key), changes);
        await writeChanges(run, runDir, store);
      }),

    recordDispatched: ({ run, batch, tasks, samples, firstSample }) =>
      withMappingAndHeartbeat(async () => {
        const at = now();
        const ids = rolloutIds(batch, tasks, samples, firstSample);
        await store.append(ids.map((rollout) => ({ run, rollout, attempt: 1, event: 'dispatched', at })));
      }),

    recordBatch: ({ run, batch, tasks, catalog, samples, firstSample }) =>
      withMappingAndHeartbeat(async () => {
        const groups = tasks.map((task) => ({ task, rollouts: rolloutIds(batch, [task], samples, firstSample) }));
        await store.putOnce<BatchManifest>(keys.manifest(batch, groups.length), {
          run,
          batch,
          ...(catalog && { catalog }),
          groups,
        });
      }),

    recordFailures: ({ catalog, failures }) => withMappingAndHeartbeat(() => recordFailures(failures, catalog, store)),

    summariseEvaluation: (input) => withMappingAndHeartbeat(() => summariseEvaluation(input, deps)),

    recordStep: ({ run, runDir, record, policy, sha256, keep, workedMs, overlap }) =>
      withMappingAndHeartbeat(async () => {
        const entry = {
          record,
          policy,
          sha256,
          keep,
          ...(workedMs !== undefined && { workedMs }),
          ...(overlap ? { overlap } : {}),
        };
        await store.putOnce<StepEntry>(keys.step(run, record.step), entry);
        await writeTrajectories({ run, name: `step-${record.step}`, batches: batchesOf(record) }, runDir, deps);
        await writeFiles(run, runDir);
        await pruneCheckpoints(run, runDir, oldestInUse(record.step, overlap), store);
      }),

    recordEvaluation: ({ run, runDir, step, evaluation }) =>
      withMappingAndHeartbeat(async () => {
        await store.putOnce<EvaluationEntry>(keys.evaluation(run, step), { step, evaluation });
        await writeTrajectories({ run, name: `eval-${step}-sampled` }, runDir, deps);
        await writeTrajectories({ run, name: `eval-${step}-greedy` }, runDir, deps);
        await writeFiles(run, runDir);
      }),

    closeRun: ({ run, runDir, status, message = '', untrained = [], execution, workedMs }) =>
      withMappingAndHeartbeat(async () => {
        if (status === 'completed') await dropUntrained(run, untrained, store);
        await recordEndOfRun(
          run,
          {
            status,
            finishedAt: now(),
            message,
            ...(workedMs !== undefined && { workedMs }),
            ...(execution === undefined ? {} : { execution }),
          },
          store,
        );
        const summary = await writeFiles(run, runDir);
        await writeAtomically(join(runDir, 'learning-curve.svg'), learningCurve(summary));
        await clearUpdates(runDir);
        // Nothing writes any more: temporary files are from writers that were killed.
        await removeLeftovers(runDir, 0);
      }),
  };
}
