/**
 * Rollouts that continue while updates run. The staleness gate decides; this starts units, receives their ends, and
 * checks units that report nothing. All that it must remember is `state`: a run continues from it in a new history, or
 * after a restart from its records.
 */

import { ApplicationFailure, CancellationScope, condition, sleep } from '@temporalio/workflow';
import type { Trip } from '../../../protocol/breaker.ts';
import type { RunFailures } from '../../failures/run-failures.ts';
import type { PauseRelay } from '../../pause-relay.ts';
import type { PolicyRef } from '../../../protocol/policy.ts';
import type { PausePoint, TrainStatus } from '../../../protocol/train-status.ts';
import type { UpdateInput } from '../../../protocol/update.ts';
import { StalenessGate, NOTHING_BEGUN } from './staleness-gate.ts';
import type { AdmissionState, Unit } from '../../../protocol/admission.ts';
import { limitsOf, drawnBy, modeOf, unitsPerStep } from '../modes.ts';
import { aimOf, byNeedOf } from '../step-tasks.ts';
import type { UnitReport } from '../../batch/report-batch-end.ts';
import { Units, type UnitsHost } from './units.ts';

/** The current state of the run. */
export interface AsyncPipelineHost extends UnitsHost {
  readonly policy: PolicyRef;
  readonly pauseAt: PausePoint | null;
  /** In milliseconds, by a clock that stops while the run is paused. */
  readonly clockMs: number;
  /** True if the run pauses on failures of machines; otherwise it ends. */
  readonly breaks: boolean;
}

/** What the run and its units share. */
export interface RunParts {
  readonly relay: PauseRelay;
  readonly failures: RunFailures;
}

/** What the records say of a run that starts again. */
export interface StartedAgain {
  /** Numbers of the units of an update that was made but whose step is not recorded: that step trains on them. */
  readonly owed: readonly number[];
}

/** What a step trains on. */
export interface StepRollouts {
  readonly rollouts: Pick<UpdateInput, 'batches' | 'wanted' | 'replace' | 'units'>;
  /** The batches' names, if they do not follow from the step's number. */
  readonly batches?: readonly string[];
  /** Seconds for which the step waited for them, without pauses. */
  readonly seconds: number;
}

/** Children started or signalled in one workflow task: far below Temporal's limits. */
const CHUNK = 100;
/**
 * A unit that was terminated reports nothing. The history that started it receives its end from Temporal; a later
 * history finds it missing at the next check, made this often, or when the run is resumed.
 */
const LOOK_AFTER_EVERY = '10m';
/** Checks, one second apart, of a unit that has reported its end. */
const ENDING_TRIES = 30;
/** The time that cancelled rollouts have to release their sandboxes; after it, the sandboxes end with their leases. */
const CANCEL_DEADLINE = '15m';

/** In chunks, so that no workflow task has too many commands. */
async function inChunks(units: readonly Unit[], work: (unit: Unit) => Promise<void>): Promise<void> {
  for (let from = 0; from < units.length; from += CHUNK) await Promise.all(units.slice(from, from + CHUNK).map(work));
}

export class AsyncPipeline {
  readonly #host: AsyncPipelineHost;
  readonly #relay: PauseRelay;
  readonly #admission: StalenessGate;
  readonly #units: Units;
  readonly #failures: RunFailures;
  /** Admitted, not started yet. */
  #queue: Unit[] = [];
  #starting = false;
  /**
   * True while units may start. Nothing starts while a step is recorded, so that the record lists all that has started.
   */
  #open = false;
  /** True while a step waits for its rollouts: that step ends even if the run is to pause after it. */
  #endsStep = false;
  #closing = false;
  #failure: unknown;
  #mustLook = false;
  /** Numbers of units that reported that they end without having rolled out. */
  readonly #unrolled = new Set<number>();

  /**
   * `again`: the run starts from its records, so units that run in `state` are started again. The next step may have
   * made its update already.
   */
  constructor(
    host: AsyncPipelineHost,
    { relay, failures }: RunParts,
    state: AdmissionState = NOTHING_BEGUN,
    again: StartedAgain | null = null,
  ) {
    this.#host = host;
    this.#relay = relay;
    this.#units = new Units(host);
    this.#failures = failures;
    this.#admission = new StalenessGate(unitsPerStep(host.config), state, again?.owed);
    if (again) this.#queue = [...state.running];
    else for (const unit of state.running) relay.add(this.#units.nameOf(unit), this.#units.handleOf(unit));
  }

  /** True if no unit is being started: a new history would not know of it. */
  get isSettled(): boolean {
    return !this.#starting && this.#queue.length === 0;
  }

  /** Errors: that of a unit which no step has waited for yet. */
  throwIfFailed(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  get mustLook(): boolean {
    return this.#mustLook;
  }

  get state(): AdmissionState {
    return this.#admission.state;
  }

  /** Numbers of the running units. */
  get running(): readonly number[] {
    return this.#admission.state.running.map(({ number }) => number);
  }

  get status(): Pick<TrainStatus, 'batch' | 'overlap'> {
    const { running, ended } = this.#admission.state;
    const oldest = running[0] ?? ended[0];
    const { config } = this.#host;
    const total = (drawn: ReturnType<typeof drawnBy>) => aimOf(drawn) * config.batch.samples;
    const batch = oldest ? { name: this.#units.nameOf(oldest), total: total(drawnBy(config, oldest.number)) } : null;
    return { batch, overlap: { running: running.length, waiting: ended.length } };
  }

  /** Starts what may start now. */
  pump(): void {
    if (!this.#open || this.#closing || this.#failure !== undefined || this.#isPaused) return;
    const { policy, config, pauseAt } = this.#host;
    this.#queue.push(
      ...this.#admission.admit(policy, limitsOf(config), pauseAt === null ? undefined : this.#admission.lacking),
    );
    if (!this.#starting && this.#queue.length > 0) void this.#startAll();
  }

  /** After a pause: starts what may start, and looks for units that were ended by hand. */
  resume(): void {
    this.lookSoon();
    this.pump();
  }

  /** Asks for a check soon: a unit may have ended without a report. */
  lookSoon(): void {
    this.#mustLook = true;
  }

  /** Returns a trip if this unit's failures, with those before, open the breaker, or if the unit did not roll out. */
  unitEnded(report: UnitReport): Trip | undefined {
    const unit = this.#admission.state.running.find(({ number }) => number === report.number);
    if (!unit) return undefined;
    const name = this.#units.nameOf(unit);
    this.#relay.remove(name);
    if (report.end !== 'rolled-out') return this.#fell(unit, report);
    // It has run since before the run was restarted from its records, and has ended before it was started again.
    this.#queue = this.#queue.filter((one) => one !== unit);
    this.#admission.end(unit.number);
    const trip = this.#host.pauseAt === null ? this.#failures.add(report.ends) : undefined;
    if (!trip) this.pump();
    return trip;
  }

  /**
   * It was ended by hand, or machines failed. The gate counts it as running until it is found missing after the pause,
   * and is started again.
   */
  #fell(unit: Unit, { end, message, mendable }: Exclude<UnitReport, { end: 'rolled-out' }>): Trip | undefined {
    const name = this.#units.nameOf(unit);
    if (mendable && this.#host.breaks && !this.#closing) {
      this.#unrolled.add(unit.number);
      return { ...mendable, failed: 1, of: 1, work: `the batch ${name}` };
    }
    this.#admission.end(unit.number);
    // No step follows.
    if (!this.#closing) this.#fail(ApplicationFailure.nonRetryable(`${name} ${end}: ${message}`, 'UnitFailed'));
    return undefined;
  }

  /** The run ends with the first error: nothing more starts, and nothing waits for what would have. */
  #fail(error: unknown): void {
    this.#failure ??= error;
    this.#queue = [];
  }

  /** Waits for what `step` trains on. Errors: that of a unit. */
  async take(step: number): Promise<StepRollouts> {
    const begun = this.#host.clockMs;
    this.#open = true;
    this.#endsStep = true;
    this.pump();
    await this.#untilReady(step);
    this.#endsStep = false;
    this.throwIfFailed();
    return { ...this.#rollouts(this.#admission.take(step)), seconds: (this.#host.clockMs - begun) / 1000 };
  }

  /** The state from which the run continues after the current step. Nothing starts until `trained` is called. */
  seal(): AdmissionState {
    this.#open = false;
    return this.#admission.state;
  }

  /** The step is recorded, and the run has its new policy. */
  trained(): void {
    this.#admission.trained();
    this.#open = true;
    this.pump();
  }

  /** Ends what runs; returns the batches whose rollouts will not be trained on. */
  async close(): Promise<readonly string[]> {
    this.#closing = true;
    this.#queue = [];
    await condition(() => !this.#starting, CANCEL_DEADLINE);
    const { running, ended } = this.#admission.state;
    await inChunks(running, async (unit) => {
      if (!(await this.#units.cancel(unit))) this.#admission.end(unit.number);
    });
    await condition(() => this.#admission.state.running.length === 0, CANCEL_DEADLINE);
    return [...running, ...ended].map((unit) => this.#units.batchOf(unit));
  }

  /** A pause at a step does not stop the step that is waited for. */
  get #isPaused(): boolean {
    const { pauseAt } = this.#host;
    return pauseAt === 'turn' || (pauseAt === 'step' && !this.#endsStep);
  }

  /** Waits until `step` has its units, or until a unit has failed. */
  async #untilReady(step: number): Promise<void> {
    const goOn = () => this.#failure !== undefined || this.#admission.isReady(step);
    while (!goOn()) {
      const changed = await condition(() => goOn() || (this.#mustLook && !this.#isPaused), LOOK_AFTER_EVERY);
      if (!this.#isPaused && (!changed || this.#mustLook)) await this.#lookAfter();
    }
  }

  async #startAll(): Promise<void> {
    this.#starting = true;
    try {
      while (this.#queue.length > 0) await Promise.all(this.#queue.splice(0, CHUNK).map((unit) => this.#start(unit)));
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#starting = false;
    }
  }

  /** A unit that reported its end has some time to end. */
  async #isThere(unit: Unit): Promise<boolean> {
    const isThere = () => this.#units.isThere(unit);
    for (let tries = 1; this.#unrolled.has(unit.number) && tries < ENDING_TRIES; tries += 1) {
      if (!(await isThere())) return false;
      await sleep('1s');
    }
    return isThere();
  }

  async #start(unit: Unit): Promise<void> {
    this.#unrolled.delete(unit.number);
    // If the start of a child that nobody waits for is cancelled before it is confirmed, nothing reports the child.
    const isNew = await CancellationScope.nonCancellable(() => this.#units.start(unit));
    const [name, handle] = [this.#units.nameOf(unit), this.#units.handleOf(unit)];
    // The run may have been terminated while it was paused.
    if (isNew) this.#relay.add(name, handle);
    else this.#relay.rejoin(name, handle);
  }

  /** Starts the unit again under its name, so that its records count. */
  #beginAgain(unit: Unit): void {
    if (this.#admission.state.running.includes(unit) && !this.#queue.includes(unit)) this.#queue.push(unit);
  }

  /** Starts units again that ended without a report. */
  async #lookAfter(): Promise<void> {
    this.#mustLook = false;
    await inChunks(
      this.#admission.state.running.filter((unit) => !this.#queue.includes(unit)),
      async (unit) => {
        if (!(await this.#isThere(unit))) this.#beginAgain(unit);
      },
    );
    this.pump();
  }

  #rollouts(units: readonly Unit[]): Omit<StepRollouts, 'seconds'> {
    const { config } = this.#host;
    if (!units[0]) throw new TypeError('A step trains on nothing');
    const rollouts = {
      batches: units.map((unit) => this.#units.batchOf(unit)),
      units: units.map(({ number }) => number),
      ...byNeedOf(drawnBy(config, units[0].number)),
    };
    return {
      rollouts,
      ...(modeOf(config) === 'async' ? { batches: units.map((unit) => this.#units.nameOf(unit)) } : {}),
    };
  }
}
