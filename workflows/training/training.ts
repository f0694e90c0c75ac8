/**
 * A run in progress, in one of its histories: each step rolls out, updates once and is recorded; only then it counts as
 * the run's step. All that it must remember is `progress`.
 */

import { upsertSearchAttributes } from '@temporalio/workflow';
import { orchestrator, training } from '../activity-stubs.ts';
import type { Details } from '../details.ts';
import { DEFAULT_BREAKER, type End, type Trip } from '../../protocol/breaker.ts';
import type { HeldBatch } from '../failures/failure-watch.ts';
import { RunFailures } from '../failures/run-failures.ts';
import type { BatchResult } from '../../protocol/batch.ts';
import type { PolicyRef } from '../../protocol/policy.ts';
import type { OpenedConfig } from '../../protocol/run-config.ts';
import type { StepRecord } from '../../protocol/step-record.ts';
import type { PausePoint, TrainStatus } from '../../protocol/train-status.ts';
import type { UpdateOutcome } from '../../protocol/update.ts';
import { policyVersionKey, stepKey } from '../../protocol/search-attributes.ts';
import { HoursBudget } from '../hours-budget.ts';
import { LiveConfig } from './live-config.ts';
import { modeOf } from './modes.ts';
import { AsyncPipeline, type StepRollouts } from './overlap/async-pipeline.ts';
import type { TrainProgress } from './progress.ts';
import type { Reconfiguration } from './reconfigure.ts';
import { RunBatches } from './run-batches.ts';
import { RunPause } from './run-pause.ts';
import { batchInput, byNeedOf, type Drawn, heldOutTasks, tasksOfStep } from './step-tasks.ts';
import { updateInShards } from './update-in-shards.ts';
import type { UnitReport } from '../batch/report-batch-end.ts';

/** Steps that the `status` query returns. */
const RECENT = 20;

export class Training {
  readonly #live: LiveConfig;
  readonly #details: Details;
  readonly #hours: HoursBudget;
  readonly #pause: RunPause;
  readonly #batches: RunBatches;
  readonly #failures: RunFailures;
  /** `null`: each step rolls out its own batch. */
  readonly #overlap: AsyncPipeline | null;
  #recent: readonly StepRecord[];
  readonly runDir: string;
  readonly startsAgain: boolean;
  step: number;
  policy: PolicyRef;
  phase: TrainStatus['phase'] = 'starting';

  constructor(progress: TrainProgress, details: Details) {
    const { config, runDir, step, policy, recent, ahead = [], again, workedMs } = progress;
    this.#details = details;
    this.runDir = runDir;
    this.step = step;
    this.policy = policy;
    this.#recent = recent;
    this.#live = new LiveConfig(config, ahead, step);
    this.#hours = new HoursBudget(workedMs);
    this.#pause = new RunPause(config.run, { details, breaks: this.breaks, hours: this.#hours }, progress);
    this.#batches = new RunBatches(this.#pause.relay);
    this.#failures = new RunFailures(config.breaker ?? DEFAULT_BREAKER, progress.failures);
    this.startsAgain = again !== undefined;
    this.#overlap =
      modeOf(this.config) === 'sync'
        ? null
        : new AsyncPipeline(this, { relay: this.#pause.relay, failures: this.#failures }, progress.overlap, again);
    this.pauseAt = progress.pauseAt;
    if (progress.missed) this.#overlap?.lookSoon();
    void this.#hours.watch({
      name: config.run,
      hours: () => this.config.budget?.hours,
      isStill: () => this.#pause.isStill,
      spent: (trip) => this.#tripBy(trip),
    });
  }

  get config(): OpenedConfig {
    return this.#live.now;
  }

  get folder() {
    return { run: this.config.run, runDir: this.runDir };
  }

  get progress(): TrainProgress {
    const { config, runDir, step, policy, pauseAt } = this;
    const { tripped, recorded } = this.#pause;
    const overlap = this.#overlap
      ? { overlap: this.#overlap.state, ...(this.#overlap.mustLook && { missed: true }) }
      : {};
    const failures = this.#failures.state;
    return {
      config,
      runDir,
      step,
      policy,
      recent: this.#recent,
      pauseAt,
      tripped,
      failures,
      ahead: this.#live.ahead,
      recorded,
      workedMs: this.workedMs,
      ...overlap,
    };
  }

  get status(): TrainStatus {
    return {
      run: this.config.run,
      phase: this.#pause.isStill ? 'paused' : this.phase,
      step: this.step,
      steps: this.config.steps,
      policyVersion: this.policy.version,
      workedSeconds: Math.round(this.workedMs / 1000),
      ...this.#shown,
      ...this.#pause.status,
      recent: this.#recent,
    };
  }

  get pauseAt(): PausePoint | null {
    return this.#pause.at;
  }

  set pauseAt(point: PausePoint | null) {
    if (!this.#pause.set(point)) {
      // A pause at a turn has become one at a step: the current step must end.
      if (point === 'step') this.#overlap?.pump();
      return;
    }
    this.#failures.reset(Date.now());
    this.#overlap?.resume();
  }

  /** True if nothing is being signalled or started: a new history would lose it. */
  get isSettled(): boolean {
    return this.#overlap === null || (this.#overlap.isSettled && this.#pause.relay.isSettled);
  }

  /** Errors: that of a unit; a new history would not know of it. */
  throwIfFailed(): void {
    this.#overlap?.throwIfFailed();
  }

  async configure(change: Reconfiguration, id: string): Promise<OpenedConfig> {
    const record = this.#live.change(change, id, this);
    if (!record) return this.config;
    const { config } = this;
    this.#overlap?.pump();
    this.#hours.changed(this.#pause.isStill);
    await record();
    return config;
  }

  /** In milliseconds, by a clock that stops while the run is paused: a step's `seconds` are measured with it. */
  get clockMs(): number {
    return this.#pause.clockMs;
  }

  /** Milliseconds in which the run was not paused, over all its histories and starts. */
  get workedMs(): number {
    return this.#hours.workedMs;
  }

  /** True if the run pauses on failures of machines; otherwise it ends. */
  get breaks(): boolean {
    return (this.config.breaker ?? DEFAULT_BREAKER).maxConsecutiveFailures > 0;
  }

  /** Empty in mode `async`: groups run side by side there, so none follows directly on the last one. */
  get lately(): readonly End[] {
    return modeOf(this.config) === 'async' ? [] : this.#failures.lately;
  }

  unitEnded(report: UnitReport): void {
    this.#tripBy(this.#overlap?.unitEnded(report));
  }

  /** True if a resume signal that the batch had not received is on its way to it. */
  isResumed({ name, resumed }: HeldBatch): boolean {
    return this.#pause.relay.isResumed(name, resumed);
  }

  /** The batch of this name paused by itself, since one of its rollouts is held. */
  markHeld(batch: string): void {
    this.#pause.relay.markHeld(batch);
  }

  /** Shows why the run is paused, in the step that is made next. */
  trip(trip: Trip): void {
    this.#pause.trip(trip, this.step + 1);
  }

  untilResumed(): Promise<void> {
    return this.#pause.untilResumed();
  }

  /** Like `RunPause.untilMended`, for the step that is made next. */
  untilMended<T>(work: string, doIt: () => Promise<T>): Promise<T> {
    return this.#pause.untilMended(work, this.step + 1, doIt);
  }

  /** Ends rollouts that no step waits for any more; returns their batches. */
  async close(): Promise<readonly string[]> {
    return (await this.#overlap?.close()) ?? [];
  }

  /** Evaluates the current policy on held-out tasks: the same rollouts whenever it is asked. */
  async evaluate(): Promise<void> {
    await this.#pause.untilResumed();
    this.phase = 'evaluating';
    const { run, evaluation } = this.config;
    const tasks = heldOutTasks(this.config);
    const sampled = `eval-${this.step}-sampled`;
    const greedy = evaluation.greedy ? `eval-${this.step}-greedy` : null;
    // One after the other: each has the dispatcher's whole width.
    await this.#rollOut({ name: sampled, step: 0, tasks }, 1, 1);
    if (greedy) await this.#rollOut({ name: greedy, step: 0, tasks }, 1, 0);
    const batches = { sampled: `train/${run}/${sampled}`, greedy: greedy && `train/${run}/${greedy}` };
    await this.untilMended(`the record of the evaluation after step ${this.step}`, async () => {
      const record = await orchestrator.summariseEvaluation({ run, ...batches });
      await orchestrator.recordEvaluation({ ...this.folder, step: this.step, evaluation: record });
    });
  }

  async trainOneStep(): Promise<void> {
    const begun = this.clockMs;
    const { config } = this;
    const step = this.step + 1;
    this.phase = 'rollouts';
    const rolled = await this.#stepRollouts(step);
    await this.#pause.mayBegin();
    this.phase = 'training';
    const trainBegun = this.clockMs;
    const outcome = await this.untilMended(`the update of step ${step}`, () =>
      this.#pause.atWork(this.#update(config, step, rolled)),
    );
    const ended = this.clockMs;
    const seconds = { rollout: rolled.seconds, train: (ended - trainBegun) / 1000, total: (ended - begun) / 1000 };
    const record: StepRecord = { ...outcome.record, ...(rolled.batches ? { batches: rolled.batches } : {}), seconds };
    const every = config.checkpoint.every;
    // The current value: the number of steps may have been lowered meanwhile.
    const keep = step >= this.config.steps || (every > 0 && step % every === 0);
    const overlap = this.#overlap ? { overlap: this.#overlap.seal() } : {};
    const { policy, sha256 } = outcome;
    await this.untilMended(`the record of step ${step}`, () =>
      orchestrator.recordStep({ ...this.folder, record, policy, sha256, keep, workedMs: this.workedMs, ...overlap }),
    );
    this.#stepDone(record, policy);
  }

  get #shown(): Pick<TrainStatus, 'batch' | 'overlap'> {
    const overlapping = this.#overlap?.status;
    const { anyRuns, shown } = this.#batches;
    return { ...overlapping, batch: anyRuns ? shown : (overlapping?.batch ?? shown) };
  }

  async #stepRollouts(step: number): Promise<StepRollouts> {
    if (this.#overlap) return this.#overlap.take(step);
    const { run, batch, sampling } = this.config;
    const drawn = tasksOfStep(this.config, step);
    const begun = this.clockMs;
    await this.#rollOut(drawn, batch.samples, sampling.temperature);
    const seconds = (this.clockMs - begun) / 1000;
    return { rollouts: { batches: [`train/${run}/${drawn.name}`], ...byNeedOf(drawn) }, seconds };
  }

  /**
   * By one worker, or in shards by all free ones; either way `update` records it. `config`: as it was when the step
   * started.
   */
  async #update(config: OpenedConfig, step: number, { rollouts }: StepRollouts): Promise<UpdateOutcome> {
    const { maskStalenessSteps: maskStaleness, shards, placement = 'colocated' } = config.training ?? { mode: 'sync' };
    const { lora } = config.policy;
    const input = {
      ...this.folder,
      step,
      steps: config.steps,
      ...rollouts,
      samples: config.batch.samples,
      ...(maskStaleness === undefined ? {} : { maskStaleness }),
      policy: this.policy,
      algorithm: config.algorithm,
      ...(lora === undefined ? {} : { lora: { ...lora, seed: config.seed } }),
      ...(this.breaks ? { mayBeUngraded: true } : {}),
      ...(shards === undefined ? {} : { shards }),
    };
    const workers = training(placement, config.engine?.training);
    if (shards !== undefined) await updateInShards({ ...input, shards }, workers);
    return workers.update(input);
  }

  /** Called when the step is recorded. */
  #stepDone(record: StepRecord, policy: PolicyRef): void {
    const { step } = record;
    this.step = step;
    this.#live.catchUp(step);
    this.policy = policy;
    this.#overlap?.trained();
    this.#recent = [...this.#recent, record].slice(-RECENT);
    upsertSearchAttributes([
      { key: stepKey, value: step },
      { key: policyVersionKey, value: policy.version },
    ]);
    const { steps } = this.config;
    this.#details.progress(
      `step ${step} of ${steps} · reward ${record.rewardMean.toFixed(3)} · pass rate ${record.passRate.toFixed(3)}`,
    );
    this.#pause.checkGraded(record);
  }

  async #rollOut(drawn: Drawn, samples: number, temperature: number): Promise<BatchResult> {
    const input = batchInput(this.config, drawn, this.policy, this.lately);
    const { step } = this;
    await this.#pause.mayBegin();
    const given = { ...input, samples, sampling: { ...input.sampling, temperature } };
    const result = await this.untilMended(`the batch ${drawn.name}`, () => this.#batches.rollOut(given, step));
    if (this.pauseAt === null) this.#tripBy(this.#failures.add(result));
    return result;
  }

  #tripBy(trip: Trip | undefined): void {
    if (!trip) return;
    this.pauseAt = 'turn';
    this.trip(trip);
  }
}
