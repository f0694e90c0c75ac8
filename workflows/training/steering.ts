/**
 * The query, the signals and the update of a run. They are handled from the run's first workflow task on, also while
 * its configuration is still checked; what is received then takes effect once the run has started.
 */

import {
  ApplicationFailure,
  condition,
  currentUpdateInfo,
  defineQuery,
  defineSignal,
  defineUpdate,
  setHandler,
} from '@temporalio/workflow';
import { type Details, stalledSignal } from '../details.ts';
import type { Trip } from '../../protocol/breaker.ts';
import { type CircuitOpened, type HeldBatch, circuitOpenedSignal } from '../failures/failure-watch.ts';
import { setOrderedSignalHandlers, on } from '../ordered-signals.ts';
import type { OpenedConfig } from '../../protocol/run-config.ts';
import type { PausePoint, TrainStatus } from '../../protocol/train-status.ts';
import { checkEffect, checkReconfiguration, type Reconfiguration } from './reconfigure.ts';
import type { Training } from './training.ts';
import { type UnitReport, unitEndedSignal } from '../batch/report-batch-end.ts';

export const trainStatusQuery = defineQuery<TrainStatus>('status');
/** Without an argument: at a turn. */
export const pauseTrainSignal = defineSignal<[PausePoint?]>('pause');
export const resumeTrainSignal = defineSignal('resume');

/** Takes effect with the next step or evaluation. */
export const configureUpdate = defineUpdate<OpenedConfig, [Reconfiguration]>('configure');

/** The status of a run before its configuration is checked. */
function startingStatus(run: string, pauseAt: PausePoint | null): TrainStatus {
  const phase = pauseAt === null ? 'starting' : 'paused';
  const common = { step: 0, steps: 0, policyVersion: 0, workedSeconds: 0, batch: null, recent: [] };
  return { run, phase, ...common, ...(pauseAt === null ? {} : { pauseAt }) };
}

async function configure(begun: Training, change: Reconfiguration): Promise<OpenedConfig> {
  try {
    checkEffect(begun.config, change);
  } catch (error) {
    throw ApplicationFailure.nonRetryable(error instanceof Error ? error.message : String(error), 'UserInputError');
  }
  return begun.configure(change, currentUpdateInfo()?.id ?? '');
}

/** Handles signals for a run that may not have started yet. */
export class Steering {
  #training: Training | null = null;
  /** The pause that was requested last. */
  #pauseAt: PausePoint | null;
  /** Why a batch from an earlier history paused the run, received before the run started in this one. */
  #earlyTrip: Trip | null = null;
  /** Batches from an earlier history with a held rollout, received before the run started in this one. */
  readonly #earlyHeld = new Set<string>();
  /** Reports of units from before the run was restarted from its records. */
  readonly #early: UnitReport[] = [];

  /** `pauseAt`: carried over to a new history. */
  constructor(run: string, pauseAt: PausePoint | null, details: Details) {
    this.#pauseAt = pauseAt;
    setHandler(trainStatusQuery, () => this.#training?.status ?? startingStatus(run, this.#pauseAt));
    setOrderedSignalHandlers(
      on<[PausePoint?]>(pauseTrainSignal, (point) => this.#pause(point === 'step' ? 'step' : 'turn')),
      on(resumeTrainSignal, () => this.#pause(null)),
      on<CircuitOpened>(circuitOpenedSignal, (trip, held) => this.#opened(trip, held)),
      on(stalledSignal, (lines) => details.stuck(lines)),
      on(unitEndedSignal, (report) => {
        if (this.#training) this.#training.unitEnded(report);
        else this.#early.push(report);
      }),
    );
    setHandler(
      configureUpdate,
      async (change) => {
        await condition(() => this.#training !== null);
        if (!this.#training) throw new TypeError('The run has not started');
        return configure(this.#training, change);
      },
      { validator: (change) => checkReconfiguration(change, this.#training?.step ?? 0) },
    );
  }

  /** The run has started: passes on what was received before. */
  begun(training: Training): void {
    // A resume that was received before the run started must reach them.
    for (const batch of this.#earlyHeld) training.markHeld(batch);
    training.pauseAt = this.#pauseAt;
    if (this.#earlyTrip) training.trip(this.#earlyTrip);
    for (const report of this.#early) training.unitEnded(report);
    this.#training = training;
  }

  #opened(trip: Trip, held?: HeldBatch): void {
    if (held && this.#training?.isResumed(held)) return;
    if (held && !this.#training) this.#earlyHeld.add(held.name);
    if (held) this.#training?.markHeld(held.name);
    this.#pause('turn');
    if (this.#training) this.#training.trip(trip);
    else this.#earlyTrip = trip;
  }

  #pause(point: PausePoint | null): void {
    this.#pauseAt = point;
    if (point === null) this.#earlyTrip = null;
    if (this.#training) this.#training.pauseAt = point;
  }
}
