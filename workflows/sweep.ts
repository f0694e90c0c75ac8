/**
 * A sweep in progress: cell by cell, chunk by chunk, with its pauses and its budgets. It rolls out what the store does
 * not hold yet.
 */

import {
  allHandlersFinished,
  ApplicationFailure,
  type ChildWorkflowHandle,
  condition,
  continueAsNew,
  log,
  ParentClosePolicy,
  startChild,
  workflowInfo,
} from '@temporalio/workflow';
import { opening, orchestrator } from './activity-stubs.ts';
import { batch as batchWorkflow } from './batch.ts';
import { type Details } from './details.ts';
import { endOfChild } from './end-of-child.ts';
import type { evalSweep } from './eval-sweep.ts';
import { type Trip, tripLine } from '../protocol/breaker.ts';
import type { HeldBatch } from './failures/failure-watch.ts';
import { QUEUES } from '../protocol/queues.ts';
import type { OpenEngineInput } from '../protocol/engine.ts';
import { checkEndpointOnce, checkJudgesOnce } from './rollout/check-endpoint.ts';
import type { CellHeadline, OpenedSweep, PlannedChunk, SweepCell, SweepChunk, SweepStatus } from '../protocol/eval.ts';
import { PauseRelay } from './pause-relay.ts';
import { policyVersionKey, runKey } from '../protocol/search-attributes.ts';
import { HoursBudget } from './hours-budget.ts';
import { changed, changesOf, checkBudgets, type Reconfiguration } from './training/reconfigure.ts';
import { whenFree } from './start-child-when-free.ts';

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

export class Sweep {
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
    this.#details.paused(this.#tripped && tripLine(this.#tripped, `eval/${this.opened.eval}`));
    this.#relay.set(paused);
    this.#hours.changed(paused);
  }

  /**
   * The running batch opened its circuit breaker, or one of its rollouts is held: nothing starts until an operator
   * resumes the sweep.
   */
  trip(trip: Trip, held?: HeldBatch): void {
    if (held && this.#relay.isResumed(held.name, held.resumed)) return;
    if (held) this.#relay.markHeld(held.name);
    this.#tripped = trip;
    log.warn(tripLine(trip, `eval/${this.opened.eval}`), { eval: this.opened.eval });
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
   * policies, before the first rollout starts. Errors: the failure of a `UserInputError` for a key or a setting that
   * cannot work.
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
      this.#showProgress();
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

  #showProgress(): void {
    const lines = this.done.map(({ cell, passAt, graded, rollouts }) => {
      const rates = Object.entries(passAt).map(([k, { mean }]) => `pass@${k} ${mean.toFixed(3)}`);
      return [cell, ...rates, `${graded} of ${rollouts} graded`].join(' · ');
    });
    this.#details.progress(
      [`${this.done.length} of ${this.opened.cells.length} cells`, ...lines.slice(-20)].join('\n\n'),
    );
  }
}
