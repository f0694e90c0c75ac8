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
  currentUpdateInfo,
  defineQuery,
  defineSignal,
  defineUpdate,
  isCancellation,
  ParentClosePolicy,
  patched,
  rootCause,
  setCurrentDetails,
  setHandler,
  startChild,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import { gpu, orchestrator } from './activities.ts';
import { batch as batchWorkflow } from './batch.ts';
import { hearSignals, on } from './hear-signals.ts';
import { PauseRelay } from './pause-relay.ts';
import { changed, changesOf, checkEffect, checkReconfiguration, type Reconfiguration } from './reconfigure.ts';
import { policyVersionKey, runKey, stepKey } from './search-attributes.ts';
import { selectTasks } from './select-tasks.ts';
import type { BatchResult, BatchSettings, ConfigChange, PausePoint, PolicyRef, RunConfig, StepRecord, TrainStatus } from './types.ts';

export const trainStatusQuery = defineQuery<TrainStatus>('status');
/** Without an argument: at a turn. */
export const pauseTrainSignal = defineSignal<[PausePoint?]>('pause');
export const resumeTrainSignal = defineSignal('resume');

/** From the next step or evaluation on. */
export const configureUpdate = defineUpdate<RunConfig, [Reconfiguration]>('configure');

/** Carried over continue-as-new. */
export interface TrainProgress {
  readonly config: RunConfig;
  readonly runDir: string;
  /** Steps done. */
  readonly step: number;
  readonly policy: PolicyRef;
  readonly recent: readonly StepRecord[];
  readonly pauseAt: PausePoint | null;
  /** Changes on record from before a restart, of steps that are still ahead. */
  readonly ahead?: readonly ConfigChange[];
}

export interface TrainResult {
  readonly run: string;
  readonly runDir: string;
  readonly steps: number;
  readonly policy: PolicyRef;
}

/** Steps that the `status` query tells of. */
const RECENT = 20;

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
  #ahead: readonly ConfigChange[];
  /** Times that it was reconfigured in this history. */
  #configured = 0;
  readonly #relay = new PauseRelay();
  #pauseAt: PausePoint | null = null;
  /** Waits for the end of a pause between two steps. */
  #stands = false;
  phase: TrainStatus['phase'] = 'starting';
  /** Under way, oldest first; `#batch` is shown, also after its end. */
  readonly #batches = new Map<string, NonNullable<TrainStatus['batch']>>();
  #batch: TrainStatus['batch'] = null;

  constructor(progress: TrainProgress) {
    this.config = progress.config;
    this.runDir = progress.runDir;
    this.step = progress.step;
    this.policy = progress.policy;
    this.recent = progress.recent;
    this.pauseAt = progress.pauseAt;
    this.#ahead = progress.ahead ?? [];
    this.#catchUp();
  }

  /** From now on, and on record: a run that starts again from its records makes the same changes at the same steps. */
  async configure(change: Reconfiguration, id: string): Promise<RunConfig> {
    const at = new Date().toISOString();
    const changes = changesOf(this.config, change, this.step, at);
    if (changes.length === 0) return this.config;
    this.config = changed(this.config, changes);
    const config = this.config;
    this.#configured += 1;
    const key = `${at}/${String(this.#configured).padStart(5, '0')}/${id}`;
    // A run that was changed by earlier code goes on without the record that it did not make.
    if (patched('changes-on-record')) await orchestrator.recordChanges({ ...this.#folder, key, changes });
    return config;
  }

  #catchUp(): void {
    const due = this.#ahead.filter(({ step }) => step <= this.step);
    this.config = changed(this.config, due);
    this.#ahead = this.#ahead.filter(({ step }) => step > this.step);
  }

  get pauseAt(): PausePoint | null {
    return this.#pauseAt;
  }

  /** Rollouts that run hear of it. */
  set pauseAt(point: PausePoint | null) {
    this.#pauseAt = point;
    this.#relay.set(point === 'turn');
  }

  /** Before a step or an evaluation. */
  async untilResumed(): Promise<void> {
    this.#stands = true;
    await condition(() => this.#pauseAt === null);
    this.#stands = false;
  }

  get progress(): TrainProgress {
    const { config, runDir, step, policy, recent, pauseAt } = this;
    return { config, runDir, step, policy, recent, pauseAt, ahead: this.#ahead };
  }

  get status(): TrainStatus {
    return {
      run: this.config.run,
      phase: this.#pauseAt === 'turn' || (this.#pauseAt === 'step' && this.#stands) ? 'paused' : this.phase,
      step: this.step,
      steps: this.config.steps,
      policyVersion: this.policy.version,
      batch: this.#batch,
      ...(this.#pauseAt === null ? {} : { pauseAt: this.#pauseAt }),
      recent: this.recent,
    };
  }

  get #folder() {
    return { run: this.config.run, runDir: this.runDir };
  }

  /** Evaluates the current policy on held-out tasks: the same rollouts whenever it is asked. */
  async evaluate(): Promise<void> {
    await this.untilResumed();
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
    await this.#mayBegin();
    this.phase = 'training';
    const trainBegun = Date.now();
    const { lora } = config.policy;
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
      ...(lora === undefined ? {} : { lora: { ...lora, seed: config.seed } }),
    });
    const ended = Date.now();
    const seconds = { rollout: rolled.seconds, train: (ended - trainBegun) / 1000, total: (ended - begun) / 1000 };
    const record: StepRecord = { ...outcome.record, seconds };
    const every = config.checkpoint.every;
    // As it is now: the run may have been shortened meanwhile.
    const keep = step >= this.config.steps || (every > 0 && step % every === 0);
    await orchestrator.recordStep({ ...this.#folder, record, policy: outcome.policy, sha256: outcome.sha256, keep });
    this.step = step;
    this.#catchUp();
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

  /** Within a step, only a pause at a turn holds anything up. */
  #mayBegin(): Promise<void> {
    return condition(() => this.#pauseAt !== 'turn');
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
    await this.#mayBegin();
    this.#batches.set(name, { name, total: (wanted ?? tasks.length) * samples });
    this.#showBatch();
    const child = await startChild(batchWorkflow, {
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
    this.#relay.add(name, child);
    try {
      return await child.result();
    } finally {
      this.#relay.remove(name);
      this.#batches.delete(name);
      this.#showBatch();
    }
  }

  #showBatch(): void {
    this.#batch = this.#batches.values().next().value ?? this.#batch;
  }
}

async function begin(given: unknown, run: string): Promise<TrainProgress> {
  const { config, runDir, policy, changes = [] } = await orchestrator.openRun(given, run);
  upsertSearchAttributes([
    { key: runKey, value: config.run },
    { key: stepKey, value: 0 },
    { key: policyVersionKey, value: policy.version },
  ]);
  return { config, runDir, step: 0, policy, recent: [], pauseAt: null, ahead: changes };
}

async function runToTheEnd(training: Training): Promise<void> {
  const due = () => training.config.evaluation.every > 0 && training.step % training.config.evaluation.every === 0;
  if (training.step === 0) await training.evaluate();
  do {
    while (training.step < training.config.steps) {
      await training.untilResumed();
      await training.trainOneStep();
      if (training.step >= training.config.steps) break;
      if (due()) await training.evaluate();
      if (workflowInfo().continueAsNewSuggested) {
        await condition(allHandlersFinished);
        await continueAsNew<typeof train>(training.config, training.progress);
      }
    }
    await training.evaluate();
    // The run may have been prolonged during its last evaluation.
  } while (training.step < training.config.steps);
}

/** What is known of a run before its configuration is checked. */
function startingStatus(run: string, pauseAt: PausePoint | null): TrainStatus {
  const phase = pauseAt === null ? 'starting' : 'paused';
  const common = { step: 0, steps: 0, policyVersion: 0, batch: null, recent: [] };
  return { run, phase, ...common, ...(pauseAt === null ? {} : { pauseAt }) };
}

/** Answers from the run's first moment on; returns the pause that was last asked for, `pauseAt` where none was. */
function answerFrom(run: string, pauseAt: PausePoint | null, training: () => Training | null): () => PausePoint | null {
  let wanted = pauseAt;
  const pause = (point: PausePoint | null) => {
    wanted = point;
    const begun = training();
    if (begun) begun.pauseAt = point;
  };
  setHandler(trainStatusQuery, () => training()?.status ?? startingStatus(run, wanted));
  hearSignals(
    on<[PausePoint?]>(pauseTrainSignal, (point) => pause(point === 'step' ? 'step' : 'turn')),
    on(resumeTrainSignal, () => pause(null)),
  );
  setHandler(
    configureUpdate,
    async (change) => {
      await condition(() => training() !== null);
      const begun = training();
      if (!begun) throw new TypeError('The run has not begun');
      try {
        checkEffect(begun.config, change);
      } catch (error) {
        throw ApplicationFailure.nonRetryable(error instanceof Error ? error.message : String(error), 'UserInputError');
      }
      return begun.configure(change, currentUpdateInfo()?.id ?? '');
    },
    { validator: (change) => checkReconfiguration(change, training()?.step ?? 0) },
  );
  return () => wanted;
}

/** `given` is a run's configuration, defaults allowed; `progress` is for continue-as-new alone. */
export async function train(given: unknown, progress?: TrainProgress): Promise<TrainResult> {
  let begun: Training | null = null;
  const run = workflowInfo().workflowId.replace(/^train\//, '');
  const pauseAt = answerFrom(run, progress?.pauseAt ?? null, () => begun);
  const training = new Training(progress ?? (await begin(given, run)));
  training.pauseAt = pauseAt();
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
