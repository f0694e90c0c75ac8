/**
 * An eval sweep: every policy under every sampling setting on every task, k samples of each. Cell by cell and chunk by
 * chunk it rolls out what the store does not hold yet, so a restarted sweep runs only what is missing.
 */

import {
  allHandlersFinished,
  ApplicationFailure,
  CancellationScope,
  CancelledFailure,
  condition,
  ContinueAsNew,
  currentUpdateInfo,
  defineQuery,
  defineUpdate,
  isCancellation,
  rootCause,
  setHandler,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import { orchestrator } from './activity-stubs.ts';
import { Details, stalledSignal } from './details.ts';
import { type CircuitOpened, circuitOpenedSignal } from './failures/failure-watch.ts';
import type { CellHeadline, OpenedSweep, SweepResult, SweepStatus } from '../protocol/eval.ts';
import { setOrderedSignalHandlers, on } from './ordered-signals.ts';
import { pauseSignal, resumeSignal } from './rollout.ts';
import { runKey } from '../protocol/search-attributes.ts';
import { checkReconfiguration, isBudget, type Reconfiguration } from './training/reconfigure.ts';
import { Sweep, type SweepProgress } from './sweep.ts';

/** Takes effect at once. Budgets alone can be changed. */
export const configureSweepUpdate = defineUpdate<OpenedSweep, [Reconfiguration]>('configure');
export const sweepStatusQuery = defineQuery<SweepStatus>('status');

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
      `${other}: cannot be changed on a live eval; give budget.tokens, budget.usd or budget.hours, ` +
        'or one of them of a judge, such as judges.NAME.budget.tokens',
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
  const shown = bad.slice(0, 5).map(({ cell, rollouts, failed }) => {
    const reasons = Object.entries(failed).map(([reason, n]) => `${n} ${reason}`);
    return `${cell}: ${reasons.join(', ')} of ${rollouts}`;
  });
  const message =
    `more rollouts were not graded than maxFailed allows, a share of ${opened.maxFailed} (${shown.join('; ')}); ` +
    'start the same eval again to run only those';
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
