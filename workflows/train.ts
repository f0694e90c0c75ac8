/**
 * A training run: for each step select tasks, roll out, update once, publish, evaluate when due. The workflow's state
 * is (step, policy version); everything else is in the store and in the run's folder, so it can be left at any time.
 */

import {
  allHandlersFinished,
  ApplicationFailure,
  CancellationScope,
  CancelledFailure,
  condition,
  ContinueAsNew,
  continueAsNew,
  defineQuery,
  defineSignal,
  defineUpdate,
  executeChild,
  isCancellation,
  ParentClosePolicy,
  rootCause,
  setCurrentDetails,
  setHandler,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import { gpu, orchestrator } from './activities.ts';
import { batch as batchWorkflow } from './batch.ts';
import { policyVersionKey, runKey, stepKey } from './search-attributes.ts';
import { selectTasks } from './select-tasks.ts';
import type { BatchResult, BatchSettings, PolicyRef, RunConfig, StepRecord, TrainStatus } from './types.ts';

export const trainStatusQuery = defineQuery<TrainStatus>('status');
export const pauseTrainSignal = defineSignal('pause');
export const resumeTrainSignal = defineSignal('resume');

/** What `configure` may change on a live run. */
export interface Reconfiguration {
  readonly learningRate?: number;
  readonly temperature?: number;
  readonly steps?: number;
  readonly evaluateEvery?: number;
  readonly checkpointEvery?: number;
}
export const configureUpdate = defineUpdate<RunConfig, [Reconfiguration]>('configure');

/** Carried over continue-as-new. */
export interface TrainProgress {
  readonly config: RunConfig;
  readonly runDir: string;
  /** Steps done. */
  readonly step: number;
  readonly policy: PolicyRef;
  readonly recent: readonly StepRecord[];
  readonly paused: boolean;
}

export interface TrainResult {
  readonly run: string;
  readonly runDir: string;
  readonly steps: number;
  readonly policy: PolicyRef;
}

/** Steps that the `status` query tells of. */
const RECENT = 20;

const RECONFIGURABLE = new Set(['learningRate', 'temperature', 'steps', 'evaluateEvery', 'checkpointEvery']);

const WHOLE = new Set(['steps', 'evaluateEvery', 'checkpointEvery']);

function checkReconfiguration(change: Reconfiguration, step: number): void {
  for (const [field, value] of Object.entries(change)) {
    if (!RECONFIGURABLE.has(field)) {
      throw new TypeError(`${field}: cannot be changed on a live run; one of ${[...RECONFIGURABLE].join(', ')}`);
    }
    const refuse = (remedy: string) => {
      throw new TypeError(`${field}: ${JSON.stringify(value)} cannot be used; ${remedy}`);
    };
    if (typeof value !== 'number' || !Number.isFinite(value) || value < 0) refuse('give a number of at least 0');
    if (field === 'learningRate' && value === 0) refuse('give a number above 0');
    if (WHOLE.has(field) && !Number.isSafeInteger(value)) refuse('give a whole number');
    if (field === 'steps' && value <= step) refuse(`give more than ${step}, the step that the run is at`);
  }
}

function reconfigured(config: RunConfig, change: Reconfiguration): RunConfig {
  return {
    ...config,
    steps: change.steps ?? config.steps,
    algorithm: { ...config.algorithm, learningRate: change.learningRate ?? config.algorithm.learningRate },
    sampling: { ...config.sampling, temperature: change.temperature ?? config.sampling.temperature },
    evaluation: { ...config.evaluation, every: change.evaluateEvery ?? config.evaluation.every },
    checkpoint: { ...config.checkpoint, every: change.checkpointEvery ?? config.checkpoint.every },
  };
}

/** Groups that a step may draw, and how many of them must vary. */
function groupsOf({ tasks, dynamicSampling: { type, maxSampleBatches } }: BatchSettings) {
  return type === 'filter' ? { candidates: tasks * maxSampleBatches, wanted: tasks } : { candidates: tasks, wanted: undefined };
}

class Training {
  config: RunConfig;
  readonly runDir: string;
  step: number;
  policy: PolicyRef;
  recent: readonly StepRecord[];
  paused: boolean;
  phase: TrainStatus['phase'] = 'starting';
  #batch: TrainStatus['batch'] = null;

  constructor(progress: TrainProgress) {
    this.config = progress.config;
    this.runDir = progress.runDir;
    this.step = progress.step;
    this.policy = progress.policy;
    this.recent = progress.recent;
    this.paused = progress.paused;
  }

  get progress(): TrainProgress {
    const { config, runDir, step, policy, recent, paused } = this;
    return { config, runDir, step, policy, recent, paused };
  }

  get status(): TrainStatus {
    return {
      run: this.config.run,
      phase: this.paused ? 'paused' : this.phase,
      step: this.step,
      steps: this.config.steps,
      policyVersion: this.policy.version,
      batch: this.#batch,
      recent: this.recent,
    };
  }

  get #folder() {
    return { run: this.config.run, runDir: this.runDir };
  }

  /** Evaluates the current policy on held-out tasks: the same rollouts whenever it is asked. */
  async evaluate(): Promise<void> {
    this.phase = 'evaluating';
    const { evaluation, task } = this.config;
    const tasks = Array.from({ length: evaluation.tasks }, (_, i) => `${task.name}-held-out-${i}`);
    const sampled = `eval-${this.step}-sampled`;
    const greedy = evaluation.greedy ? `eval-${this.step}-greedy` : null;
    await Promise.all([
      this.#rollOut(sampled, tasks, 1, 1, 0),
      ...(greedy ? [this.#rollOut(greedy, tasks, 1, 0, 0)] : []),
    ]);
    const { run } = this.config;
    const record = await orchestrator.summariseEvaluation({
      run,
      tasks,
      sampled: `train/${run}/${sampled}`,
      greedy: greedy && `train/${run}/${greedy}`,
    });
    await orchestrator.recordEvaluation({ ...this.#folder, step: this.step, evaluation: record });
  }

  async trainOneStep(): Promise<void> {
    const begun = Date.now();
    const { config } = this;
    const step = this.step + 1;
    const { samples } = config.batch;
    const { candidates, wanted } = groupsOf(config.batch);
    const tasks = selectTasks(config.seed, step, config.task.train, candidates).map((i) => `${config.task.name}-train-${i}`);
    this.phase = 'rollouts';
    const name = `step-${step}`;
    const rolled = await this.#rollOut(name, tasks, samples, config.sampling.temperature, step, wanted);
    this.phase = 'training';
    const trainBegun = Date.now();
    const outcome = await gpu.update({
      ...this.#folder,
      step,
      steps: config.steps,
      batch: `train/${config.run}/${name}`,
      tasks: tasks.slice(0, rolled.groups),
      samples,
      ...(wanted === undefined ? {} : { wanted }),
      policy: this.policy,
      algorithm: config.algorithm,
    });
    const ended = Date.now();
    const seconds = { rollout: rolled.seconds, train: (ended - trainBegun) / 1000, total: (ended - begun) / 1000 };
    const record: StepRecord = { ...outcome.record, seconds };
    const every = config.checkpoint.every;
    const keep = step === config.steps || (every > 0 && step % every === 0);
    await orchestrator.recordStep({ ...this.#folder, record, policy: outcome.policy, sha256: outcome.sha256, keep });
    this.step = step;
    this.policy = outcome.policy;
    this.recent = [...this.recent, record].slice(-RECENT);
    upsertSearchAttributes([
      { key: stepKey, value: step },
      { key: policyVersionKey, value: this.policy.version },
    ]);
    setCurrentDetails(
      `step ${step} of ${config.steps} · reward ${record.rewardMean.toFixed(3)} · pass rate ${record.passRate.toFixed(3)}`,
    );
  }

  async #rollOut(
    name: string,
    tasks: readonly string[],
    samples: number,
    temperature: number,
    step: number,
    wanted?: number,
  ): Promise<BatchResult> {
    const { config, policy } = this;
    this.#batch = { name, total: (wanted ?? tasks.length) * samples };
    return executeChild(batchWorkflow, {
      workflowId: `train/${config.run}/${name}`,
      parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
      staticSummary: `${wanted ?? tasks.length} tasks × ${samples} · policy v${policy.version}`,
      typedSearchAttributes: [
        { key: runKey, value: config.run },
        { key: stepKey, value: this.step },
        { key: policyVersionKey, value: policy.version },
      ],
      args: [
        {
          run: config.run,
          name,
          step,
          tasks,
          samples,
          ...(wanted === undefined ? {} : { wanted }),
          policy,
          agent: config.agent,
          sampling: { ...config.sampling, temperature },
          seed: config.seed,
          dispatcher: config.dispatcher,
        },
      ],
    });
  }
}

async function begin(given: unknown, run: string): Promise<TrainProgress> {
  const { config, runDir, policy } = await orchestrator.openRun(given, run);
  upsertSearchAttributes([
    { key: runKey, value: config.run },
    { key: stepKey, value: 0 },
    { key: policyVersionKey, value: policy.version },
  ]);
  return { config, runDir, step: 0, policy, recent: [], paused: false };
}

async function runToTheEnd(training: Training): Promise<void> {
  const due = () => training.config.evaluation.every > 0 && training.step % training.config.evaluation.every === 0;
  if (training.step === 0) await training.evaluate();
  while (training.step < training.config.steps) {
    await condition(() => !training.paused);
    await training.trainOneStep();
    if (training.step >= training.config.steps) break;
    if (due()) await training.evaluate();
    if (workflowInfo().continueAsNewSuggested) {
      await condition(allHandlersFinished);
      await continueAsNew<typeof train>(training.config, training.progress);
    }
  }
  await training.evaluate();
}

/** What can be asked of a run from its first moment on, before its configuration is checked. */
function answerFrom(run: string, training: () => Training | null): () => boolean {
  let paused = false;
  const starting: TrainStatus = {
    run,
    phase: 'starting',
    step: 0,
    steps: 0,
    policyVersion: 0,
    batch: null,
    recent: [],
  };
  const pause = (value: boolean) => {
    paused = value;
    const begun = training();
    if (begun) begun.paused = value;
  };
  setHandler(trainStatusQuery, () => training()?.status ?? starting);
  setHandler(pauseTrainSignal, () => pause(true));
  setHandler(resumeTrainSignal, () => pause(false));
  setHandler(
    configureUpdate,
    async (change) => {
      await condition(() => training() !== null);
      const begun = training();
      if (!begun) throw new TypeError('The run has not begun');
      begun.config = reconfigured(begun.config, change);
      return begun.config;
    },
    { validator: (change) => checkReconfiguration(change, training()?.step ?? 0) },
  );
  return () => paused;
}

/** `given` is a run's configuration, defaults allowed; `progress` is for continue-as-new alone. */
export async function train(given: unknown, progress?: TrainProgress): Promise<TrainResult> {
  let begun: Training | null = null;
  const run = workflowInfo().workflowId.replace(/^train\//, '');
  const isPaused = answerFrom(run, () => begun);
  const training = new Training(progress ?? (await begin(given, run)));
  training.paused ||= isPaused();
  begun = training;
  const folder = { run: training.config.run, runDir: training.runDir };
  try {
    await runToTheEnd(training);
  } catch (error) {
    if (error instanceof ContinueAsNew) throw error;
    // What was waited for when the run was cancelled may have failed by itself: the run is cancelled all the same.
    const cancelled = isCancellation(error) || CancellationScope.current().consideredCancelled;
    const status = cancelled ? 'cancelled' : 'failed';
    const message = (rootCause(error) ?? String(error)).slice(0, 300);
    await CancellationScope.nonCancellable(() => orchestrator.closeRun({ ...folder, status, message }));
    if (cancelled) throw isCancellation(error) ? error : new CancelledFailure(message);
    if (!(error instanceof Error)) throw error;
    throw ApplicationFailure.create({ message, type: 'RunFailed', nonRetryable: true, cause: error });
  }
  training.phase = 'done';
  await orchestrator.closeRun({ ...folder, status: 'completed' });
  await condition(allHandlersFinished);
  return { run: training.config.run, runDir: training.runDir, steps: training.step, policy: training.policy };
}
