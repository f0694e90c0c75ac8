/**
 * Rollouts that go on while updates run: admission decides, this begins units, hears of their ends, and looks after
 * those that say nothing. What it must remember is `state`, so a run goes on from it in a new history, or from records.
 */

import {
  ApplicationFailure,
  condition,
  getExternalWorkflowHandle,
  ParentClosePolicy,
  startChild,
  ChildWorkflowCancellationType,
  type ExternalWorkflowHandle,
} from '@temporalio/workflow';
import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import type { PauseRelay } from '../pause-relay.ts';
import { policyVersionKey, runKey, stepKey } from '../search-attributes.ts';
import type { PausePoint, PolicyRef, RolledOut, RunConfig, TrainStatus, UpdateInput } from '../types.ts';
import { Admission, type AdmissionState, type EndedUnit, NOTHING_BEGUN, type Unit } from './admission.ts';
import { drawnBy, limitsOf, modeOf, policyOf, unitsPerStep } from './modes.ts';
import { batchInput } from './step-tasks.ts';
import type { UnitReport } from './unit-report.ts';
import { unit as unitWorkflow } from './unit.ts';

/** The run, as it is at the moment. */
export interface OverlapHost {
  readonly config: RunConfig;
  readonly policy: PolicyRef;
  readonly pauseAt: PausePoint | null;
}

/** What a step trains on. */
export interface StepRollouts {
  readonly rollouts: Pick<UpdateInput, 'batch' | 'tasks' | 'further' | 'wanted'>;
  /** The batches' names, where the step's number does not say them. */
  readonly batches?: readonly string[];
  /** That the step waited for them. */
  readonly seconds: number;
}

/** Children begun, or told something, from one workflow task: far below Temporal's limits. */
const CHUNK = 100;
/** A unit that was ended by hand reports nothing: it is missed then, or when the run is resumed. */
const LOOK_AFTER_EVERY = '30m';
/** Cancelled rollouts release their sandboxes; past this their leases do. */
const CANCEL_DEADLINE = '15m';
/** What a unit does not know it ignores: it only shows whether the unit is there. */
const LOOK_SIGNAL = 'lookedAfter';

export class Overlap {
  readonly #host: OverlapHost;
  readonly #relay: PauseRelay;
  readonly #admission: Admission;
  /** Admitted, not started yet. */
  #queue: Unit[] = [];
  #starting = false;
  /** Between two steps, while one is put on record, nothing begins: the record then says what has begun. */
  #open = false;
  #closing = false;
  #failure: unknown;
  #mustLook = false;

  /** `again`: what ran in `state` is to be begun again, since the run starts from its records. */
  constructor(host: OverlapHost, relay: PauseRelay, state: AdmissionState = NOTHING_BEGUN, again = false) {
    this.#host = host;
    this.#relay = relay;
    this.#admission = new Admission(unitsPerStep(host.config), state);
    if (again) this.#queue = [...state.running];
    else for (const unit of state.running) relay.add(this.#name(unit), this.#handle(unit));
  }

  /** Nothing is under way that a new history would not know of. */
  get isSettled(): boolean {
    return !this.#starting && this.#queue.length === 0;
  }

  get state(): AdmissionState {
    return this.#admission.state;
  }

  get status(): Pick<TrainStatus, 'batch' | 'overlap'> {
    const { running, ended } = this.#admission.state;
    const oldest = running[0] ?? ended[0];
    const { config } = this.#host;
    const total = ({ tasks, wanted }: ReturnType<typeof drawnBy>) => (wanted ?? tasks.length) * config.batch.samples;
    const batch = oldest ? { name: this.#name(oldest), total: total(drawnBy(config, oldest.number)) } : null;
    return { batch, overlap: { running: running.length, waiting: ended.length } };
  }

  /** Begins what may begin now. */
  pump(): void {
    if (!this.#open || this.#closing || this.#failure !== undefined || this.#host.pauseAt !== null) return;
    this.#queue.push(...this.#admission.admit(this.#host.policy, limitsOf(this.#host.config)));
    if (!this.#starting && this.#queue.length > 0) void this.#startAll();
  }

  /** After a pause: what began meanwhile, and what was ended by hand. */
  resume(): void {
    this.#mustLook = true;
    this.pump();
  }

  hear(report: UnitReport): void {
    const unit = this.#admission.state.running.find(({ number }) => number === report.number);
    if (!unit) return;
    this.#relay.remove(this.#name(unit));
    this.#admission.end(unit.number, report.end === 'rolled-out' ? report.groups : 0);
    if (report.end !== 'rolled-out' && !this.#closing) {
      // No step follows.
      this.#failure ??= ApplicationFailure.nonRetryable(`${this.#name(unit)} ${report.end}: ${report.message}`, 'UnitFailed');
    }
    this.pump();
  }

  /** Waits for what `step` trains on. Errors: that of a unit. */
  async take(step: number): Promise<StepRollouts> {
    const begun = Date.now();
    this.#open = true;
    this.pump();
    const goOn = () => this.#failure !== undefined || this.#admission.isReady(step);
    const mayLook = () => this.#host.pauseAt === null;
    while (!goOn()) {
      const told = await condition(() => goOn() || (this.#mustLook && mayLook()), LOOK_AFTER_EVERY);
      if (mayLook() && (!told || this.#mustLook)) await this.#lookAfter();
    }
    if (this.#failure !== undefined) throw this.#failure;
    return { ...this.#rollouts(this.#admission.take(step)), seconds: (Date.now() - begun) / 1000 };
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
    for (let from = 0; from < running.length; from += CHUNK) {
      await Promise.all(running.slice(from, from + CHUNK).map((unit) => this.#cancel(unit)));
    }
    await condition(() => this.#admission.state.running.length === 0, CANCEL_DEADLINE);
    return [...running, ...ended].map((unit) => this.#batchId(unit));
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

  async #start(unit: Unit): Promise<void> {
    const { config } = this.#host;
    const drawn = drawnBy(config, unit.number);
    try {
      await startChild(unitWorkflow, {
        workflowId: this.#unitId(unit),
        // A run that goes on in a new history keeps what runs; a run that ends cancels it by name.
        parentClosePolicy: ParentClosePolicy.ABANDON,
        cancellationType: ChildWorkflowCancellationType.ABANDON,
        staticSummary: `${drawn.name} · policy v${unit.policy.version}`,
        typedSearchAttributes: [
          { key: runKey, value: config.run },
          { key: stepKey, value: drawn.step },
          { key: policyVersionKey, value: unit.policy.version },
        ],
        args: [{ number: unit.number, train: `train/${config.run}`, batch: batchInput(config, drawn, policyOf(config, unit)) }],
      });
    } catch (error) {
      // It runs since before the run started from its records, and will report like any other.
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    }
    this.#relay.add(drawn.name, this.#handle(unit));
  }

  /** A unit that is gone without a word begins again under its name: what it recorded stands. */
  async #lookAfter(): Promise<void> {
    this.#mustLook = false;
    const running = this.#admission.state.running.filter((unit) => !this.#queue.includes(unit));
    for (let from = 0; from < running.length; from += CHUNK) {
      await Promise.all(
        running.slice(from, from + CHUNK).map(async (unit) => {
          if (await this.#isThere(unit)) return;
          if (this.#admission.state.running.includes(unit)) this.#queue.push(unit);
        }),
      );
    }
    this.pump();
  }

  async #isThere(unit: Unit): Promise<boolean> {
    try {
      await this.#handle(unit).signal(LOOK_SIGNAL);
      return true;
    } catch {
      return false;
    }
  }

  async #cancel(unit: Unit): Promise<void> {
    try {
      // To cancel what has ended succeeds; to signal it does not.
      await this.#handle(unit).signal(LOOK_SIGNAL);
      await this.#handle(unit).cancel();
    } catch {
      // It has ended without a word, or never began.
      this.#admission.end(unit.number, 0);
    }
  }

  #rollouts(units: readonly EndedUnit[]): Omit<StepRollouts, 'seconds'> {
    const { config } = this.#host;
    const rolled = units.map((unit): RolledOut => ({ batch: this.#batchId(unit), tasks: drawnBy(config, unit.number).tasks.slice(0, unit.groups) }));
    const [first, ...further] = rolled;
    if (!first) throw new TypeError('A step trains on nothing');
    const wanted = units[0] && drawnBy(config, units[0].number).wanted;
    const names = units.map((unit) => this.#name(unit));
    const rollouts = { ...first, ...(further.length > 0 ? { further } : {}), ...(wanted === undefined ? {} : { wanted }) };
    return { rollouts, ...(modeOf(config) === 'async' ? { batches: names } : {}) };
  }

  #name({ number }: Unit): string {
    return drawnBy(this.#host.config, number).name;
  }

  #batchId(unit: Unit): string {
    return `train/${this.#host.config.run}/${this.#name(unit)}`;
  }

  #unitId(unit: Unit): string {
    return `${this.#batchId(unit)}/unit`;
  }

  #handle(unit: Unit): ExternalWorkflowHandle {
    return getExternalWorkflowHandle(this.#unitId(unit));
  }
}
