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
  log,
  ParentClosePolicy,
  patched,
  rootCause,
  setCurrentDetails,
  setHandler,
  startChild,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import { orchestrator } from './activities.ts';
import { batch as batchWorkflow } from './batch.ts';
import { DEFAULT_BREAKER, type Trip, tripLine, ungradedTrip } from './failures/circuit-breaker.ts';
import { circuitOpenedSignal } from './failures/failure-watch.ts';
import { hearSignals, on } from './hear-signals.ts';
import { PauseRelay } from './pause-relay.ts';
import { changed, changesOf, checkEffect, checkReconfiguration, type Reconfiguration } from './training/reconfigure.ts';
import { policyVersionKey, runKey, stepKey } from './search-attributes.ts';
import { whenFree } from './start-child-when-free.ts';
import type { AdmissionState } from './training/admission.ts';
import { applyUpdate } from './training/apply-update.ts';
import { modeOf } from './training/modes.ts';
import { Overlap, type StartedAgain, type StepRollouts } from './training/overlap.ts';
import { aimOf, batchInput, byNeedOf, type Drawn, tasksOfStep } from './training/step-tasks.ts';
import { type UnitReport, unitEndedSignal } from './training/unit-report.ts';
import type { BatchResult } from './messages/batch.ts';
import type { PolicyRef } from './messages/policy.ts';
import type { ConfigChange, RunConfig } from './messages/run-config.ts';
import type { StepRecord } from './messages/step-record.ts';
import type { PausePoint, TrainStatus } from './messages/train-status.ts';

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
  readonly tripped?: Trip | null;
  /** Changes on record from before a restart, of steps that are still ahead. */
  readonly ahead?: readonly ConfigChange[];
  /** The last step that was on record when the run began: whoever started it again knows how those went. */
  readonly recorded?: number;
  /** Where rollouts and updates overlap: what has begun and is not trained on. */
  readonly overlap?: AdmissionState;
  /** The run starts from its records: what ran in `overlap` begins again. */
  readonly again?: StartedAgain;
}

export interface TrainResult {
  readonly run: string;
  readonly runDir: string;
  readonly steps: number;
  readonly policy: PolicyRef;
}

/** Steps that the `status` query tells of. */
const RECENT = 20;

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
  /** `null`: each step rolls out its own batch. */
  readonly #overlap: Overlap | null;
  readonly startsAgain: boolean;
  readonly #recorded: number;
  #pauseAt: PausePoint | null = null;
  /** Why the circuit breaker paused it. */
  #tripped: Trip | null = null;
  /** The step in which it last did. */
  #trippedIn = 0;
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
    this.#tripped = progress.tripped ?? null;
    this.#ahead = progress.ahead ?? [];
    this.startsAgain = progress.again !== undefined;
    this.#recorded = progress.recorded ?? 0;
    this.#catchUp();
    this.#overlap = modeOf(this.config) === 'sync' ? null : new Overlap(this, this.#relay, progress.overlap, progress.again);
    this.pauseAt = progress.pauseAt;
  }

  /** From now on, and on record: a run that starts again from its records makes the same changes at the same steps. */
  async configure(change: Reconfiguration, id: string): Promise<RunConfig> {
    const at = new Date().toISOString();
    const changes = changesOf(this.config, change, this.step, at);
    if (changes.length === 0) return this.config;
    this.config = changed(this.config, changes);
    const config = this.config;
    this.#overlap?.pump();
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
    const changed = this.#pauseAt !== point;
    this.#pauseAt = point;
    if (point === null) this.#tripped = null;
    this.#relay.set(point === 'turn');
    if (point === null && changed) this.#overlap?.resume();
  }

  unitEnded(report: UnitReport): void {
    this.#overlap?.hear(report);
  }

  /** Nothing is being told or begun: a new history would lose it. */
  get isSettled(): boolean {
    return this.#overlap === null || (this.#overlap.isSettled && this.#relay.isSettled);
  }

  /** Ends rollouts that no step waits for any more; returns their batches. */
  async close(): Promise<readonly string[]> {
    return (await this.#overlap?.close()) ?? [];
  }

  /** Nothing begins until somebody has looked and resumes it. */
  trip(trip: Trip): void {
    this.#tripped = trip;
    this.#trippedIn = this.step + 1;
    log.warn(tripLine(trip), { run: this.config.run });
    setCurrentDetails(tripLine(trip));
  }

  /** Before a step or an evaluation. */
  async untilResumed(): Promise<void> {
    this.#stands = true;
    await condition(() => this.#pauseAt === null);
    this.#stands = false;
  }

  get progress(): TrainProgress {
    const { config, runDir, step, policy, recent, pauseAt } = this;
    const overlap = this.#overlap ? { overlap: this.#overlap.state } : {};
    return { config, runDir, step, policy, recent, pauseAt, tripped: this.#tripped, ahead: this.#ahead, recorded: this.#recorded, ...overlap };
  }

  get status(): TrainStatus {
    return {
      run: this.config.run,
      phase: this.#pauseAt === 'turn' || (this.#pauseAt === 'step' && this.#stands) ? 'paused' : this.phase,
      step: this.step,
      steps: this.config.steps,
      policyVersion: this.policy.version,
      ...this.#shown,
      ...(this.#pauseAt === null ? {} : { pauseAt: this.#pauseAt }),
      ...(this.#tripped === null ? {} : { tripped: this.#tripped }),
      recent: this.recent,
    };
  }

  get #shown(): Pick<TrainStatus, 'batch' | 'overlap'> {
    const overlapping = this.#overlap?.status;
    return { ...overlapping, batch: this.#batches.size > 0 ? this.#batch : (overlapping?.batch ?? this.#batch) };
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
      this.#rollOut({ name: sampled, step: 0, tasks }, 1, 1),
      ...(greedy ? [this.#rollOut({ name: greedy, step: 0, tasks }, 1, 0)] : []),
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

  async #stepRollouts(step: number): Promise<StepRollouts> {
    if (this.#overlap) return this.#overlap.take(step);
    const { run, batch, sampling } = this.config;
    const drawn = tasksOfStep(this.config, step);
    const { groups, seconds } = await this.#rollOut(drawn, batch.samples, sampling.temperature);
    const rollouts = { batch: `train/${run}/${drawn.name}`, tasks: drawn.tasks.slice(0, groups), ...byNeedOf(drawn) };
    return { rollouts, seconds };
  }

  async trainOneStep(): Promise<void> {
    const begun = Date.now();
    const { config } = this;
    const step = this.step + 1;
    this.phase = 'rollouts';
    const rolled = await this.#stepRollouts(step);
    await this.#mayBegin();
    this.phase = 'training';
    const trainBegun = Date.now();
    const { maskStalenessSteps: maskStaleness, shards, placement } = config.training ?? { mode: 'sync' };
    const { lora } = config.policy;
    const outcome = await applyUpdate({
      ...this.#folder,
      step,
      steps: config.steps,
      ...rolled.rollouts,
      samples: config.batch.samples,
      ...(maskStaleness === undefined ? {} : { maskStaleness }),
      policy: this.policy,
      algorithm: config.algorithm,
      ...(lora === undefined ? {} : { lora: { ...lora, seed: config.seed } }),
      ...(this.#mayBreak ? { mayBeUngraded: true } : {}),
      ...(shards === undefined ? {} : { shards }),
    }, placement);
    const ended = Date.now();
    const seconds = { rollout: rolled.seconds, train: (ended - trainBegun) / 1000, total: (ended - begun) / 1000 };
    const record: StepRecord = { ...outcome.record, ...(rolled.batches ? { batches: rolled.batches } : {}), seconds };
    const every = config.checkpoint.every;
    // As it is now: the run may have been shortened meanwhile.
    const keep = step >= this.config.steps || (every > 0 && step % every === 0);
    const overlap = this.#overlap ? { overlap: this.#overlap.seal() } : {};
    await orchestrator.recordStep({ ...this.#folder, record, policy: outcome.policy, sha256: outcome.sha256, keep, ...overlap });
    this.step = step;
    this.#catchUp();
    this.policy = outcome.policy;
    this.#overlap?.trained();
    this.recent = [...this.recent, record].slice(-RECENT);
    upsertSearchAttributes([
      { key: stepKey, value: step },
      { key: policyVersionKey, value: this.policy.version },
    ]);
    setCurrentDetails(
      `step ${step} of ${config.steps} · reward ${record.rewardMean.toFixed(3)} · pass rate ${record.passRate.toFixed(3)}`,
    );
    this.#checkGraded(record);
  }

  get #mayBreak(): boolean {
    return (this.config.breaker ?? DEFAULT_BREAKER).inARow > 0;
  }

  /** Somebody has to look before further steps go the same way; who did during this step need not be told again. */
  #checkGraded(record: StepRecord): void {
    if (record.valid > 0 || record.step <= this.#recorded || this.#trippedIn === record.step || this.#pauseAt !== null) return;
    this.pauseAt = 'turn';
    this.trip(ungradedTrip(record));
    // It was told of the step that has ended: the next one may end the same way.
    this.#trippedIn = record.step;
  }

  /** Within a step, only a pause at a turn holds anything up. */
  #mayBegin(): Promise<void> {
    return condition(() => this.#pauseAt !== 'turn');
  }

  async #rollOut(drawn: Drawn, samples: number, temperature: number): Promise<BatchResult> {
    const { config, policy } = this;
    const { name } = drawn;
    const input = batchInput(config, drawn, policy);
    await this.#mayBegin();
    this.#batches.set(name, { name, total: aimOf(drawn) * samples });
    this.#showBatch();
    const child = await whenFree(() => startChild(batchWorkflow, {
      workflowId: `train/${config.run}/${name}`,
      parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
      staticSummary: `${aimOf(drawn)} tasks × ${samples} · policy v${policy.version}`,
      typedSearchAttributes: [
        { key: runKey, value: config.run },
        { key: stepKey, value: this.step },
        { key: policyVersionKey, value: policy.version },
      ],
      args: [{ ...input, samples, sampling: { ...input.sampling, temperature } }],
    }));
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
  const { config, runDir, policy: base, changes = [], recorded = 0, resume } = await orchestrator.openRun(given, run);
  const { step, policy } = resume ?? { step: 0, policy: base };
  upsertSearchAttributes([
    { key: runKey, value: config.run },
    { key: stepKey, value: step },
    { key: policyVersionKey, value: policy.version },
  ]);
  const again = resume ? { overlap: resume.overlap, again: { owed: resume.owed ?? [] } } : {};
  return { config, runDir, step, policy, recent: [], pauseAt: null, ahead: changes, recorded, ...again };
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

interface Heard {
  /** The pause that was last asked for. */
  readonly pauseAt: PausePoint | null;
  readonly early: readonly UnitReport[];
}

/** Answers from the run's first moment on; returns what it was told before `training` was there. */
function answerFrom(run: string, pauseAt: PausePoint | null, training: () => Training | null): () => Heard {
  let wanted = pauseAt;
  /** Of units that run since before the run started from its records. */
  const early: UnitReport[] = [];
  const pause = (point: PausePoint | null) => {
    wanted = point;
    const begun = training();
    if (begun) begun.pauseAt = point;
  };
  setHandler(trainStatusQuery, () => training()?.status ?? startingStatus(run, wanted));
  hearSignals(
    on<[PausePoint?]>(pauseTrainSignal, (point) => pause(point === 'step' ? 'step' : 'turn')),
    on(resumeTrainSignal, () => pause(null)),
    on(circuitOpenedSignal, (trip) => {
      pause('turn');
      training()?.trip(trip);
    }),
    on(unitEndedSignal, (report) => {
      const begun = training();
      if (begun) begun.unitEnded(report);
      else early.push(report);
    }),
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
  return () => ({ pauseAt: wanted, early });
}

/** `given` is a run's configuration, defaults allowed; `progress` is for continue-as-new alone. */
export async function train(given: unknown, progress?: TrainProgress): Promise<TrainResult> {
  let begun: Training | null = null;
  const run = workflowInfo().workflowId.replace(/^train\//, '');
  const heard = answerFrom(run, progress?.pauseAt ?? null, () => begun);
  const training = new Training(progress ?? (await begin(given, run)));
  const { pauseAt, early } = heard();
  training.pauseAt = pauseAt;
  for (const report of early) training.unitEnded(report);
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
    await CancellationScope.nonCancellable(async () => {
      await training.close();
      await orchestrator.closeRun({ ...folder, status, message });
    });
    if (cancelled) throw isCancellation(error) ? error : new CancelledFailure(message);
    if (!(error instanceof Error)) throw error;
    throw ApplicationFailure.create({ message, type: 'RunFailed', nonRetryable: true, cause: error });
  }
  training.phase = 'done';
  const untrained = await training.close();
  await orchestrator.closeRun({ ...folder, status: 'completed', ...(untrained.length > 0 ? { untrained } : {}) });
  await condition(allHandlersFinished);
  return { run: training.config.run, runDir: training.runDir, steps: training.step, policy: training.policy };
}
