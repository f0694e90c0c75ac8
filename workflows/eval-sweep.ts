/**
 * An eval sweep: every policy under every sampling setting on every task, k samples of each. Cell by cell and chunk by
 * chunk it rolls out what the store does not hold yet, so that one that is started again runs only what is missing.
 */

import {
  allHandlersFinished,
  ApplicationFailure,
  CancellationScope,
  CancelledFailure,
  type ChildWorkflowHandle,
  condition,
  ContinueAsNew,
  continueAsNew,
  defineQuery,
  isCancellation,
  log,
  ParentClosePolicy,
  rootCause,
  setHandler,
  startChild,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import { orchestrator } from './activity-stubs.ts';
import { batch as batchWorkflow } from './batch.ts';
import { Details, stalledSignal } from './details.ts';
import { endOfChild } from './end-of-child.ts';
import { type Trip, tripLine } from '../protocol/breaker.ts';
import { type CircuitOpened, circuitOpenedSignal, type HeldBatch } from './failures/failure-watch.ts';
import { checkEndpointOnce } from './rollout/check-endpoint.ts';
import type {
  CellHeadline,
  OpenedSweep,
  PlannedChunk,
  SweepCell,
  SweepChunk,
  SweepResult,
  SweepStatus,
} from '../protocol/eval.ts';
import { setOrderedSignalHandlers, on } from './ordered-signals.ts';
import { PauseRelay } from './pause-relay.ts';
import { pauseSignal, resumeSignal } from './rollout.ts';
import { policyVersionKey, runKey } from '../protocol/search-attributes.ts';
import { whenFree } from './start-child-when-free.ts';

export const sweepStatusQuery = defineQuery<SweepStatus>('status');

/** Carried over continue-as-new. */
export interface SweepProgress {
  readonly opened: OpenedSweep;
  /** Cells that are done, in their order, and the chunk that comes next in the one after them. */
  readonly done: readonly CellHeadline[];
  readonly chunk: number;
  readonly paused: boolean;
  /** Absent: it did not pause by itself. */
  readonly tripped?: Trip | null;
}

class Sweep {
  readonly #relay = new PauseRelay();
  readonly #details: Details;
  readonly opened: OpenedSweep;
  done: CellHeadline[];
  chunk: number;
  paused: boolean;
  #tripped: Trip | null;
  #cell: SweepStatus['cell'] = null;
  #batch: ChildWorkflowHandle<typeof batchWorkflow> | null = null;

  constructor({ opened, done, chunk, paused, tripped = null }: SweepProgress, details: Details) {
    this.#tripped = tripped;
    this.#details = details;
    this.opened = opened;
    this.done = [...done];
    this.chunk = chunk;
    this.paused = paused;
  }

  get progress(): SweepProgress {
    const { opened, done, chunk, paused } = this;
    return { opened, done, chunk, paused, tripped: this.#tripped };
  }

  get status(): SweepStatus {
    const { opened, done } = this;
    const { eval: id, round, cells } = opened;
    const phase = done.length === cells.length ? 'done' : this.paused ? 'paused' : 'rollouts';
    return {
      eval: id,
      phase,
      round,
      cells: cells.length,
      done,
      cell: this.#cell,
      batch: this.#batch?.workflowId ?? null,
      ...(this.#tripped && { tripped: this.#tripped }),
    };
  }

  /** No further batch begins; the rollouts of the one under way stop before their next turn. */
  pause(paused: boolean): void {
    this.paused = paused;
    if (!paused) this.#tripped = null;
    this.#details.standsStill(this.#tripped && tripLine(this.#tripped));
    this.#relay.set(paused);
  }

  /** A rollout of the batch under way, `held`, stands still: nothing begins until somebody has looked and resumes it. */
  trip(trip: Trip, held?: HeldBatch): void {
    if (held && this.#relay.isResumed(held.name, held.resumed)) return;
    if (held) this.#relay.stands(held.name);
    this.#tripped = trip;
    log.warn(tripLine(trip), { eval: this.opened.eval });
    this.pause(true);
  }

  /**
   * Asks the endpoints of the cells that have something to roll out, before anything of any cell is.
   * Errors: a `UserInputError`'s failure for a key or a setting that cannot work.
   */
  async checkEndpoints(): Promise<void> {
    const { eval: id, round, cells } = this.opened;
    const asked = new Set<string>();
    for (const cell of cells) {
      const { policy, policyName } = cell;
      if (!('endpoint' in policy) || asked.has(policyName)) continue;
      if (!(await orchestrator.nextChunk({ eval: id, round, cell, index: 0 })).chunk) continue;
      asked.add(policyName);
      await checkEndpointOnce({
        run: `eval/${id}`,
        endpoint: policy.endpoint,
        field: `policies.${policyName}.endpoint`,
      });
    }
  }

  /** Rolls out the cells that are left. Continues as new between two batches where the history asks for it. */
  async run(): Promise<void> {
    for (let cell = this.#next(); cell; cell = this.#next()) {
      const planned = await this.#plan(cell);
      if (planned.chunk) {
        await condition(() => !this.paused);
        await this.#rollOut(cell, planned.chunk);
        this.chunk += 1;
      } else {
        const { eval: id, round } = this.opened;
        this.done.push(await orchestrator.summariseCell({ eval: id, round, cell }));
        this.chunk = 0;
      }
      this.#tell();
      if (!workflowInfo().continueAsNewSuggested) continue;
      await condition(allHandlersFinished);
      await continueAsNew<typeof evalSweep>({}, this.progress);
    }
  }

  #next(): SweepCell | undefined {
    return this.opened.cells[this.done.length];
  }

  async #plan(cell: SweepCell): Promise<PlannedChunk> {
    const { eval: id, round } = this.opened;
    const planned = await orchestrator.nextChunk({ eval: id, round, cell, index: this.chunk });
    this.#cell = { name: cell.name, total: planned.total, known: planned.known };
    return planned;
  }

  async #rollOut(cell: SweepCell, { tasks, samples, firstSample }: SweepChunk): Promise<void> {
    const { eval: id, round, seed, agent, dispatcher } = this.opened;
    const run = `eval/${id}`;
    const name = `${cell.name}/r${round}-c${this.chunk}`;
    const { policy, sampling } = cell;
    this.#batch = await whenFree(() =>
      startChild(batchWorkflow, {
        workflowId: `${run}/${name}`,
        parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
        staticSummary: `${cell.name} · ${tasks.length} tasks × ${samples}`,
        typedSearchAttributes: [
          { key: runKey, value: run },
          { key: policyVersionKey, value: policy.version },
        ],
        args: [
          {
            run,
            name,
            step: 0,
            tasks,
            samples,
            firstSample,
            policy,
            agent,
            sampling,
            seed,
            dispatcher,
            priority: 'eval',
          },
        ],
      }),
    );
    this.#relay.add(name, this.#batch);
    try {
      await endOfChild(this.#batch);
    } finally {
      this.#relay.remove(name);
      this.#batch = null;
    }
  }

  #tell(): void {
    const lines = this.done.map(({ cell, passAt, graded, rollouts }) => {
      const rates = Object.entries(passAt).map(([k, { mean }]) => `pass@${k} ${mean.toFixed(3)}`);
      return [cell, ...rates, `${graded} of ${rollouts} graded`].join(' · ');
    });
    this.#details.progress(
      [`${this.done.length} of ${this.opened.cells.length} cells`, ...lines.slice(-20)].join('\n\n'),
    );
  }
}

/** What can be asked of a sweep from its first moment on, before its configuration is checked. */
function answerFrom(id: string, sweep: () => Sweep | null, details: Details): () => boolean | undefined {
  let said: boolean | undefined;
  const pause = (value: boolean) => {
    said = value;
    sweep()?.pause(value);
  };
  const starting: SweepStatus = { eval: id, phase: 'starting', round: 0, cells: 0, done: [], cell: null, batch: null };
  setHandler(sweepStatusQuery, () => sweep()?.status ?? starting);
  setOrderedSignalHandlers(
    on(pauseSignal, () => pause(true)),
    on(resumeSignal, () => pause(false)),
    on(stalledSignal, (lines) => details.stuck(lines)),
    on<CircuitOpened>(circuitOpenedSignal, (trip, held) => {
      // A batch of this execution runs, so that the sweep has begun.
      sweep()?.trip(trip, held);
    }),
  );
  return () => said;
}

async function open(given: unknown, id: string): Promise<SweepProgress> {
  upsertSearchAttributes([{ key: runKey, value: `eval/${id}` }]);
  const opened = await orchestrator.openSweep({ given, eval: id, execution: workflowInfo().firstExecutionRunId });
  return { opened, done: [], chunk: 0, paused: false };
}

/** The cells whose failures are more than the sweep allows: their numbers say more of the machines than of the policy. */
function refuseFailures({ done, opened }: Sweep): void {
  const bad = done.filter(({ rollouts, graded }) => rollouts - graded > opened.maxFailed * rollouts);
  if (bad.length === 0) return;
  const told = bad.slice(0, 5).map(({ cell, rollouts, failed }) => {
    const reasons = Object.entries(failed).map(([reason, n]) => `${n} ${reason}`);
    return `${cell}: ${reasons.join(', ')} of ${rollouts}`;
  });
  const message = `more than ${opened.maxFailed} of the rollouts were not graded (${told.join('; ')}); start the same eval again to run those alone`;
  throw ApplicationFailure.nonRetryable(message, 'TooManyFailures');
}

/** `given` is a sweep's configuration, defaults allowed; `progress` is for continue-as-new alone. */
export async function evalSweep(given: unknown, progress?: SweepProgress): Promise<SweepResult> {
  const id = workflowInfo().workflowId.replace(/^eval\//, '');
  let begun: Sweep | null = null;
  const details = new Details();
  const said = answerFrom(id, () => begun, details);
  const sweep = new Sweep(progress ?? (await open(given, id)), details);
  // What was said before this history began counts for more than what was carried over.
  sweep.pause(said() ?? sweep.paused);
  begun = sweep;
  const { round, evalDir } = sweep.opened;
  const close = (status: 'completed' | 'failed' | 'cancelled', message?: string) =>
    orchestrator.closeSweep({ eval: id, round, status, ...(message === undefined ? {} : { message }) });
  try {
    if (!progress) await sweep.checkEndpoints();
    await sweep.run();
    refuseFailures(sweep);
    await close('completed');
  } catch (error) {
    if (error instanceof ContinueAsNew) throw error;
    const status = CancellationScope.current().consideredCancelled ? 'cancelled' : 'failed';
    const message = (rootCause(error) ?? String(error)).slice(0, 500);
    await CancellationScope.nonCancellable(() => close(status, message));
    if (isCancellation(error) || !(error instanceof Error)) throw error;
    // What was waited for when it was cancelled may have failed by itself.
    if (status === 'cancelled') throw new CancelledFailure(message);
    throw ApplicationFailure.create({ message, type: 'EvalFailed', nonRetryable: true, cause: error });
  }
  await condition(allHandlersFinished);
  const total = (value: (cell: CellHeadline) => number) => sweep.done.reduce((sum, cell) => sum + value(cell), 0);
  return {
    eval: id,
    evalDir,
    rounds: round,
    rollouts: total((c) => c.rollouts),
    graded: total((c) => c.graded),
    cells: sweep.done,
  };
}
