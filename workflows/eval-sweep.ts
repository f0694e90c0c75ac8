/**
 * An eval sweep: every policy under every sampling setting on every task, k samples of each. Cell by cell and chunk by
 * chunk it rolls out what the store does not hold yet, so a restarted sweep runs only what is missing.
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
  currentUpdateInfo,
  defineQuery,
  defineUpdate,
  isCancellation,
  log,
  ParentClosePolicy,
  rootCause,
  setHandler,
  startChild,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import { opening, orchestrator } from './activity-stubs.ts';
import { batch as batchWorkflow } from './batch.ts';
import { Details, stalledSignal } from './details.ts';
import { endOfChild } from './end-of-child.ts';
import { type Trip, tripLine } from '../protocol/breaker.ts';
import { type CircuitOpened, circuitOpenedSignal, type HeldBatch } from './failures/failure-watch.ts';
import { QUEUES } from '../protocol/queues.ts';
import type { OpenEngineInput } from '../protocol/engine.ts';
import { checkEndpointOnce, checkJudgesOnce } from './rollout/check-endpoint.ts';
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
import { HoursBudget } from './hours-budget.ts';
import {
  changed,
  changesOf,
  checkBudgets,
  checkReconfiguration,
  isBudget,
  type Reconfiguration,
} from './training/reconfigure.ts';
import { whenFree } from './start-child-when-free.ts';

/** Takes effect at once. Budgets alone can be changed. */
export const configureSweepUpdate = defineUpdate<OpenedSweep, [Reconfiguration]>('configure');
export const sweepStatusQuery = defineQuery<SweepStatus>('status');

/** Carried over continue-as-new. */
export interface SweepProgress {
  readonly opened: OpenedSweep;
  /** Finished cells, in order. */
  readonly done: readonly CellHeadline[];
  /** Index of the next chunk of the cell after them. */
  readonly chunk: number;
  readonly paused: boolean;
  /** Why it paused by itself; absent: it did not. */
  readonly tripped?: Trip | null;
  /** Milliseconds in which it was not paused. Absent: the round starts. */
  readonly workedMs?: number;
}

class Sweep {
  readonly #relay = new PauseRelay();
  readonly #details: Details;
  readonly #hours: HoursBudget;
  opened: OpenedSweep;
  done: CellHeadline[];
  chunk: number;
  paused: boolean;
  #tripped: Trip | null;
  #cell: SweepStatus['cell'] = null;
  #batch: ChildWorkflowHandle<typeof batchWorkflow> | null = null;

  constructor({ opened, done, chunk, paused, tripped = null, workedMs }: SweepProgress, details: Details) {
    this.#tripped = tripped;
    this.#details = details;
    this.opened = opened;
    this.done = [...done];
    this.chunk = chunk;
    this.paused = paused;
    this.#hours = new HoursBudget(workedMs ?? opened.workedMs);
    void this.#hours.watch({
      name: `eval/${opened.eval}`,
      hours: () => this.opened.budget?.hours,
      isStill: () => this.paused,
      spent: (trip) => this.trip(trip),
    });
  }

  get progress(): SweepProgress {
    const { opened, done, chunk, paused } = this;
    return { opened, done, chunk, paused, tripped: this.#tripped, workedMs: this.workedMs };
  }

  get workedMs(): number {
    return this.#hours.workedMs;
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
      workedSeconds: Math.round(this.workedMs / 1000),
      done,
      cell: this.#cell,
      batch: this.#batch?.workflowId ?? null,
      ...(this.#tripped && { tripped: this.#tripped }),
    };
  }

  /** While it is paused, no further batch starts, and the rollouts of the running one stop before their next turn. */
  pause(paused: boolean): void {
    this.paused = paused;
    if (!paused) this.#tripped = null;
    this.#details.standsStill(this.#tripped && tripLine(this.#tripped));
    this.#relay.set(paused);
    this.#hours.changed(paused);
  }

  /**
   * The running batch opened its circuit breaker, or one of its rollouts is held: nothing starts until an operator
   * resumes the sweep.
   */
  trip(trip: Trip, held?: HeldBatch): void {
    if (held && this.#relay.isResumed(held.name, held.resumed)) return;
    if (held) this.#relay.stands(held.name);
    this.#tripped = trip;
    log.warn(tripLine(trip), { eval: this.opened.eval });
    this.pause(true);
  }

  /**
   * Changes budgets of the live eval, and records the changes: the activities that call models read them there.
   * Errors: `ApplicationFailure` of a `UserInputError`.
   */
  async configure(change: Reconfiguration, id: string): Promise<OpenedSweep> {
    const { opened } = this;
    const endpoints = opened.cells.flatMap(({ policy }) => ('endpoint' in policy ? [policy.endpoint] : []));
    const ofJudges = Object.values(opened.judges ?? {}).map(({ endpoint }) => endpoint);
    try {
      checkBudgets(opened, [...endpoints, ...ofJudges], change);
    } catch (error) {
      throw ApplicationFailure.nonRetryable((error as Error).message, 'UserInputError');
    }
    const at = new Date().toISOString();
    const changes = changesOf(opened, change, 0, at);
    if (changes.length === 0) return opened;
    this.opened = changed(opened, changes);
    this.#hours.changed(this.paused);
    await orchestrator.recordBudgets({ eval: opened.eval, round: opened.round, key: `${at}/00001/${id}`, changes });
    return this.opened;
  }

  /**
   * Checks the endpoints of the judges and of all cells that have rollouts to run, and opens the engine for their other
   * policies, before the first rollout starts. Errors: the failure of a `UserInputError` for a key or a setting that cannot work.
   */
  async checkPolicies(): Promise<void> {
    const { eval: id, round, cells, agent, judges } = this.opened;
    await checkJudgesOnce(`eval/${id}`, judges);
    const asked = new Set<string>();
    const policies: Array<OpenEngineInput['policies'][number]> = [];
    for (const cell of cells) {
      const { policy, policyName } = cell;
      if ('scripted' in policy || asked.has(policyName)) continue;
      if (!(await orchestrator.nextChunk({ eval: id, round, cell, index: 0 })).chunk) continue;
      asked.add(policyName);
      if ('uri' in policy) {
        policies.push({ field: `policies.${policyName}`, uri: policy.uri });
        continue;
      }
      await checkEndpointOnce({
        run: `eval/${id}`,
        endpoint: policy.endpoint,
        field: `policies.${policyName}.endpoint`,
      });
    }
    const { maxContextTokens } = agent;
    if (policies.length === 0) return;
    const { kinds } = await opening(QUEUES.gpu).openEngine({
      run: `eval/${id}`,
      parts: ['sampling'],
      policies,
      ...(maxContextTokens !== undefined && { maxContextTokens }),
    });
    if (kinds.sampling !== undefined) this.opened = { ...this.opened, engine: kinds.sampling };
  }

  /** Rolls out the remaining cells. Continues as new between two batches if Temporal suggests it. */
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
    const { eval: id, round, seed, judges, agent, dispatcher, catalog, engine } = this.opened;
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
            ...(catalog && { catalog }),
            samples,
            firstSample,
            policy,
            agent,
            sampling,
            ...(judges && { judges }),
            seed,
            dispatcher,
            ...(engine !== undefined && { engine }),
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

/**
 * Handles query and signals from the first workflow task on, before the sweep's configuration is checked. Returns a
 * function that gives the last pause or resume received in this history: true for a pause, `undefined` for none.
 */
function answerFrom(id: string, sweep: () => Sweep | null, details: Details): () => boolean | undefined {
  let said: boolean | undefined;
  const pause = (value: boolean) => {
    said = value;
    sweep()?.pause(value);
  };
  const starting: SweepStatus = {
    eval: id,
    phase: 'starting',
    round: 0,
    cells: 0,
    workedSeconds: 0,
    done: [],
    cell: null,
    batch: null,
  };
  setHandler(
    configureSweepUpdate,
    async (change) => {
      await condition(() => sweep() !== null);
      const begun = sweep();
      if (!begun) throw new TypeError('The eval has not started');
      return begun.configure(change, currentUpdateInfo()?.id ?? '');
    },
    { validator: checkSweepChange },
  );
  setHandler(sweepStatusQuery, () => sweep()?.status ?? starting);
  setOrderedSignalHandlers(
    on(pauseSignal, () => pause(true)),
    on(resumeSignal, () => pause(false)),
    on(stalledSignal, (lines) => details.stuck(lines)),
    on<CircuitOpened>(circuitOpenedSignal, (trip, held) => {
      // A batch of this execution sent it, so the sweep has started.
      sweep()?.trip(trip, held);
    }),
  );
  return () => said;
}

/** Errors: a `TypeError` for a name or a value that a live eval cannot change. */
function checkSweepChange(change: Reconfiguration): void {
  const other = Object.keys(change ?? {}).find((name) => !isBudget(name));
  if (other !== undefined)
    throw new TypeError(
      `${other}: cannot be changed on a live eval; give budget.tokens, budget.usd, budget.hours, judges.NAME.budget.tokens or judges.NAME.budget.usd`,
    );
  checkReconfiguration(change, 0);
}

async function open(given: unknown, id: string): Promise<SweepProgress> {
  upsertSearchAttributes([{ key: runKey, value: `eval/${id}` }]);
  const opened = await orchestrator.openSweep({ given, eval: id, execution: workflowInfo().firstExecutionRunId });
  return { opened, done: [], chunk: 0, paused: false };
}

/**
 * Fails if a cell has more failures than the sweep allows: its numbers describe the machines rather than the policy.
 */
function refuseFailures({ done, opened }: Sweep): void {
  const bad = done.filter(({ rollouts, graded }) => rollouts - graded > opened.maxFailed * rollouts);
  if (bad.length === 0) return;
  const told = bad.slice(0, 5).map(({ cell, rollouts, failed }) => {
    const reasons = Object.entries(failed).map(([reason, n]) => `${n} ${reason}`);
    return `${cell}: ${reasons.join(', ')} of ${rollouts}`;
  });
  const message = `more rollouts were not graded than maxFailed allows, a share of ${opened.maxFailed} (${told.join('; ')}); start the same eval again to run only those`;
  throw ApplicationFailure.nonRetryable(message, 'TooManyFailures');
}

/** `given` is a sweep's configuration, in which defaults may be absent; `progress` is set by continue-as-new only. */
export async function evalSweep(given: unknown, progress?: SweepProgress): Promise<SweepResult> {
  const id = workflowInfo().workflowId.replace(/^eval\//, '');
  let begun: Sweep | null = null;
  const details = new Details();
  const said = answerFrom(id, () => begun, details);
  const sweep = new Sweep(progress ?? (await open(given, id)), details);
  // A signal that this history has received already is newer than the state that was carried over.
  sweep.pause(said() ?? sweep.paused);
  begun = sweep;
  const { round, evalDir } = sweep.opened;
  const close = (status: 'completed' | 'failed' | 'cancelled', message?: string) =>
    orchestrator.closeSweep({
      eval: id,
      round,
      status,
      workedMs: sweep.workedMs,
      ...(message === undefined ? {} : { message }),
    });
  try {
    if (!progress) await sweep.checkPolicies();
    await sweep.run();
    refuseFailures(sweep);
    await close('completed');
  } catch (error) {
    if (error instanceof ContinueAsNew) throw error;
    const status = CancellationScope.current().consideredCancelled ? 'cancelled' : 'failed';
    const message = (rootCause(error) ?? String(error)).slice(0, 500);
    await CancellationScope.nonCancellable(() => close(status, message));
    if (isCancellation(error) || !(error instanceof Error)) throw error;
    // The awaited work may have failed on its own while the sweep was cancelled.
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
