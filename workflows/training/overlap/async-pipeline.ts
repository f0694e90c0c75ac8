/**
 * Rollouts that go on while updates run: admission decides, this begins units, hears of their ends, and looks after
 * those that say nothing. What it must remember is `state`, so a run goes on from it in a new history, or from records.
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

/** The run, as it is at the moment. */
export interface AsyncPipelineHost extends UnitsHost {
  readonly policy: PolicyRef;
  readonly pauseAt: PausePoint | null;
  /** Milliseconds, by a clock that stands still with the run. */
  readonly clockMs: number;
  /** Whether it pauses for what failed, or ends. */
  readonly breaks: boolean;
}

/** What the run and its units share. */
export interface RunParts {
  readonly relay: PauseRelay;
  readonly failures: RunFailures;
}

/** From its records. */
export interface StartedAgain {
  /** Units, by number, of an update that was made and whose step is not on record: that step trains on those. */
  readonly owed: readonly number[];
}

/** What a step trains on. */
export interface StepRollouts {
  readonly rollouts: Pick<UpdateInput, 'batches' | 'wanted' | 'replace' | 'units'>;
  /** The batches' names, where the step's number does not say them. */
  readonly batches?: readonly string[];
  /** That the step waited for them, without pauses. */
  readonly seconds: number;
}

/** Children begun, or told something, from one workflow task: far below Temporal's limits. */
const CHUNK = 100;
/** A unit that was terminated reports nothing. The history that began it receives its end from Temporal; a later one finds it missing then, or when the run is resumed. */
const LOOK_AFTER_EVERY = '10m';
/** Looks, a second apart, at a unit that has said its last word. */
const ENDING_TRIES = 30;
/** Cancelled rollouts release their sandboxes; past this their leases do. */
const CANCEL_DEADLINE = '15m';

/** In parts, so that no workflow task has more commands than it may. */
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
  /** Between two steps, while one is put on record, nothing begins: the record then says what has begun. */
  #open = false;
  /** A step is waited for, which is to end also where the run pauses after it. */
  #endsStep = false;
  #closing = false;
  #failure: unknown;
  #mustLook = false;
  /** Units, by number, that said that they end without having rolled out. */
  readonly #unrolled = new Set<number>();

  /** `again`: what ran in `state` is to be begun again, since the run starts from its records, where the next step may have trained on something. */
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

  /** Nothing is under way that a new history would not know of; what failed ends the run before there is one. */
  get isSettled(): boolean {
    return !this.#starting && (this.#queue.length === 0 || this.#failure !== undefined);
  }

  /** That of a unit which no step has waited for yet. */
  throwIfFailed(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  get mustLook(): boolean {
    return this.#mustLook;
  }

  get state(): AdmissionState {
    return this.#admission.state;
  }

  /** Units under way, by number. */
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

  /** Begins what may begin now. */
  pump(): void {
    if (!this.#open || this.#closing || this.#failure !== undefined || this.#standsStill) return;
    const { policy, config, pauseAt } = this.#host;
    this.#queue.push(
      ...this.#admission.admit(policy, limitsOf(config), pauseAt === null ? undefined : this.#admission.lacking),
    );
    if (!this.#starting && this.#queue.length > 0) void this.#startAll();
  }

  /** After a pause: what began meanwhile, and what was ended by hand. */
  resume(): void {
    this.lookSoon();
    this.pump();
  }

  /** Some unit may have ended without a word. */
  lookSoon(): void {
    this.#mustLook = true;
  }

  /** Answers with a trip where the unit's failures, and those before, say something of the machines, or where it did not roll out. */
  hear(report: UnitReport): Trip | undefined {
    const unit = this.#admission.state.running.find(({ number }) => number === report.number);
    if (!unit) return undefined;
    const name = this.#units.nameOf(unit);
    this.#relay.remove(name);
    if (report.end !== 'rolled-out') return this.#fell(unit, report);
    // It ran since before the run started from its records, and has ended before it was begun again.
    this.#queue = this.#queue.filter((one) => one !== unit);
    this.#admission.end(unit.number);
    const trip = this.#host.pauseAt === null ? this.#failures.heard(report.ends) : undefined;
    if (!trip) this.pump();
    return trip;
  }

  /** It was ended by hand, or machines failed it: it runs for admission until it is found gone, after the pause, and begins again. */
  #fell(unit: Unit, { end, message, mendable }: Exclude<UnitReport, { end: 'rolled-out' }>): Trip | undefined {
    const name = this.#units.nameOf(unit);
    if (mendable && this.#host.breaks && !this.#closing) {
      this.#unrolled.add(unit.number);
      return { ...mendable, failed: 1, of: 1, work: `the batch ${name}` };
    }
    this.#admission.end(unit.number);
    // No step follows.
    if (!this.#closing) this.#failure ??= ApplicationFailure.nonRetryable(`${name} ${end}: ${message}`, 'UnitFailed');
    return undefined;
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

  /** What the run is to go on from after the step that was taken for; nothing begins until `trained`. */
  seal(): AdmissionState {
    this.#open = false;
    return this.#admission.state;
  }

  /** The step is on record, and the policy is the next one. */
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

  /** A pause at a step lets the one that is waited for end. */
  get #standsStill(): boolean {
    const { pauseAt } = this.#host;
    return pauseAt === 'turn' || (pauseAt === 'step' && !this.#endsStep);
  }

  /** Or until a unit has failed. */
  async #untilReady(step: number): Promise<void> {
    const goOn = () => this.#failure !== undefined || this.#admission.isReady(step);
    while (!goOn()) {
      const told = await condition(() => goOn() || (this.#mustLook && !this.#standsStill), LOOK_AFTER_EVERY);
      if (!this.#standsStill && (!told || this.#mustLook)) await this.#lookAfter();
    }
  }

  async #startAll(): Promise<void> {
    this.#starting = true;
    try {
      while (this.#queue.length > 0) await Promise.all(this.#queue.splice(0, CHUNK).map((unit) => this.#start(unit)));
    } catch (error) {
      this.#failure ??= error;
    } finally {
      this.#starting = false;
    }
  }

  /** One that said that it ends is given a moment to do so. */
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
    // A child that is not waited for, and whose start is cancelled before it is known, never tells of it.
    const isNew = await CancellationScope.nonCancellable(() => this.#units.start(unit));
    const [name, handle] = [this.#units.nameOf(unit), this.#units.handleOf(unit)];
    // The run may have been terminated while it stood still.
    if (isNew) this.#relay.add(name, handle);
    else this.#relay.rejoin(name, handle);
  }

  /** Under its name: what it recorded stands. */
  #beginAgain(unit: Unit): void {
    if (this.#admission.state.running.includes(unit) && !this.#queue.includes(unit)) this.#queue.push(unit);
  }

  /** A unit that is gone without a word begins again. */
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
