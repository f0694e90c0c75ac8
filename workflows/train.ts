/**
 * A training run: for each step select tasks, roll out, update once, publish, evaluate when due. The workflow's state
 * is (step, policy version); everything else is in the store and in the run's folder, so a run may stop at any time.
 */

import {
  allHandlersFinished,
  ApplicationFailure,
  CancellationScope,
  CancelledFailure,
  condition,
  ContinueAsNew,
  continueAsNew,
  isCancellation,
  rootCause,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import { opening, orchestrator } from './activity-stubs.ts';
import { Details } from './details.ts';
import type { PolicyRef } from '../protocol/policy.ts';
import type { OpenedConfig } from '../protocol/run-config.ts';
import type { RunFolder } from '../protocol/activities.ts';
import { QUEUES } from '../protocol/queues.ts';
import { policyVersionKey, runKey, stepKey } from '../protocol/search-attributes.ts';
import type { TrainProgress } from './training/progress.ts';
import { checkJudgesOnce } from './rollout/check-endpoint.ts';
import { Steering } from './training/steering.ts';
import { Training } from './training/training.ts';

export interface TrainResult {
  readonly run: string;
  readonly runDir: string;
  readonly steps: number;
  readonly policy: PolicyRef;
}

/** The run's configuration with what the engine gives it: the context, and the kinds that make its products. */
async function openEngine(config: OpenedConfig, { uri }: PolicyRef): Promise<OpenedConfig> {
  const { run, policy, agent } = config;
  const isApart = config.training?.placement === 'disaggregated';
  const { contextTokens, kinds } = await opening(QUEUES.gpu).openEngine({
    run,
    parts: isApart ? ['sampling'] : ['sampling', 'training'],
    policies: [{ field: 'policy.base', uri }],
    ...(policy.maxContextTokens !== undefined && { policyContextTokens: policy.maxContextTokens }),
    ...(agent.maxContextTokens !== undefined && { maxContextTokens: agent.maxContextTokens }),
  });
  const trains = isApart && (await opening(QUEUES.gpuTrain).openEngine({ run, parts: ['training'], policies: [] }));
  return {
    ...config,
    ...(contextTokens !== undefined && { agent: { ...agent, maxContextTokens: contextTokens } }),
    engine: { ...kinds, ...(trains && trains.kinds) },
  };
}

async function begin(given: unknown, run: string): Promise<TrainProgress> {
  const {
    config,
    runDir,
    policy: base,
    changes = [],
    recorded = 0,
    resume,
    workedMs = 0,
  } = await orchestrator.openRun(given, run, workflowInfo().runId);
  const { step, policy } = resume ?? { step: 0, policy: base };
  upsertSearchAttributes([
    { key: runKey, value: config.run },
    { key: stepKey, value: step },
    { key: policyVersionKey, value: policy.version },
  ]);
  const opened = await openEngine(config, base).catch(async (error: unknown) => {
    throw await recordEarlyEnd({ run: config.run, runDir }, error);
  });
  const again = resume ? { overlap: resume.overlap, again: { owed: resume.owed ?? [] } } : {};
  return {
    config: opened,
    runDir,
    step,
    policy,
    recent: [],
    pauseAt: null,
    ahead: changes,
    recorded,
    workedMs,
    ...again,
  };
}

async function runToTheEnd(training: Training): Promise<void> {
  const due = () => training.config.evaluation.every > 0 && training.step % training.config.evaluation.every === 0;
  if (training.step === 0 || (training.startsAgain && due())) await training.evaluate();
  do {
    while (training.step < training.config.steps) {
      await training.untilResumed();
      await training.trainOneStep();
      if (training.step >= training.config.steps) break;
      if (due()) await training.evaluate();
      if (workflowInfo().continueAsNewSuggested) {
        await condition(() => allHandlersFinished() && training.isSettled);
        training.throwIfFailed();
        await continueAsNew<typeof train>(training.config, training.progress);
      }
    }
    await training.evaluate();
    // The number of steps may have been raised during the last evaluation.
  } while (training.step < training.config.steps);
}

/** Records that the run has completed. */
async function complete(training: Training): Promise<void> {
  training.phase = 'done';
  const untrained = await training.close();
  const closing = {
    ...training.folder,
    status: 'completed' as const,
    execution: workflowInfo().runId,
    workedMs: training.workedMs,
    ...(untrained.length > 0 ? { untrained } : {}),
  };
  await training.untilMended('the record of its end', () => orchestrator.closeRun(closing));
}

/** Records the run as cancelled or failed; returns the error that the workflow ends with. */
async function recordEarlyEnd(
  folder: RunFolder & { readonly workedMs?: number },
  error: unknown,
  close: () => Promise<unknown> = async () => undefined,
): Promise<unknown> {
  // The awaited work may have failed on its own while the run was cancelled: the run still counts as cancelled.
  const cancelled = isCancellation(error) || CancellationScope.current().consideredCancelled;
  const status = cancelled ? 'cancelled' : 'failed';
  const message = (rootCause(error) ?? String(error)).slice(0, 300);
  await CancellationScope.nonCancellable(async () => {
    await close();
    await orchestrator.closeRun({ ...folder, status, message, execution: workflowInfo().runId });
  });
  if (cancelled) return isCancellation(error) ? error : new CancelledFailure(message);
  return error instanceof Error
    ? ApplicationFailure.create({ message, type: 'RunFailed', nonRetryable: true, cause: error })
    : error;
}

/** `given` is a run's configuration, in which defaults may be absent; `progress` is set by continue-as-new only. */
export async function train(given: unknown, progress?: TrainProgress): Promise<TrainResult> {
  const run = workflowInfo().workflowId.replace(/^train\//, '');
  const details = new Details();
  const steering = new Steering(run, progress?.pauseAt ?? null, details);
  const training = new Training(progress ?? (await begin(given, run)), details);
  steering.begun(training);
  try {
    if (!progress) await checkJudgesOnce(training.config.run, training.config.judges);
    await runToTheEnd(training);
    await complete(training);
  } catch (error) {
    if (error instanceof ContinueAsNew) throw error;
    const { folder, workedMs } = training;
    throw await recordEarlyEnd({ ...folder, workedMs }, error, () => training.close());
  }
  await condition(allHandlersFinished);
  return { run: training.config.run, runDir: training.runDir, steps: training.step, policy: training.policy };
}
