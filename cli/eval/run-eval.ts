/**
 * `longhaul eval`: starts the stack if it is not up, starts the eval or attaches to it, follows it to its end, and
 * reports. The eval does not need this process: interrupting it stops nothing.
 */

import { type EvalResults, evalResultsOf } from '../../reports/evaluation/eval-results.ts';
import { evalFolder, evalKeys, type EvalRecord } from '../../reports/evaluation/eval-records.ts';
import { checkUnchanged } from '../../activities/orchestrator/sweep/open-sweep.ts';
import { storeUrlOf } from '../../connection/store-url.ts';
import { asBegun } from '../../config/sweep-config.ts';
import { openStore, storeExists } from '../../store/open-store.ts';
import { refuseUnusableDisks, stackPlaces } from '../../stack/disk-room.ts';
import { stackHome } from '../../connection/stack-paths.ts';
import type { SettledSweep, SweepConfig } from '../../protocol/eval.ts';
import { type Stack, withStack } from '../connect/with-stack.ts';
import { exitCodeOf, Interrupted, JobFailed } from '../../client/errors.ts';
import type { Screen } from '../train/follow.ts';
import { failureOf } from '../train/run-failure.ts';
import { checkEvalInputs } from './check-inputs.ts';
import { followEval } from './follow.ts';
import { evalPlanLines, evalReportLines } from './format.ts';

export interface EvalStart {
  readonly eval: string;
  readonly evalDir: string;
  readonly workflowId: string;
  readonly ui: string;
}

export interface EvalOptions {
  readonly detach: boolean;
  /** Fires when the user interrupts: following ends, the eval continues. */
  readonly signal: AbortSignal;
  readonly screen: Screen;
  /** The command that attaches to this eval again. */
  readonly again: string;
  /** Allows the workers to use what the configuration names. Called after the configuration is checked. */
  readonly allow: () => Promise<void>;
}

interface Before {
  readonly settled: SettledSweep;
  /** Its results, if the eval is complete. */
  readonly whole?: EvalResults;
}

/** An eval that has started is read from the store alone; for any other, its inputs are checked. */
async function before(config: SweepConfig): Promise<Before> {
  const url = storeUrlOf();
  if (!(await storeExists(url))) return checkEvalInputs(config);
  const store = await openStore(url);
  try {
    const record = await store.get<EvalRecord>(evalKeys.record(config.eval));
    if (!record) return checkEvalInputs(config);
    const settled = asBegun(config, record.config);
    await checkUnchanged(settled, record);
    const results = await evalResultsOf(config.eval, store);
    const whole = results?.status === 'completed' && results.cells.every(({ graded, rollouts }) => graded === rollouts);
    return { settled, ...(whole && { whole: results }) };
  } finally {
    await store.close();
  }
}

async function onStack(
  config: SweepConfig,
  { longhaul, store, temporal }: Stack,
  options: EvalOptions,
): Promise<EvalResults | EvalStart> {
  const { screen, detach, signal } = options;
  const id = config.eval;
  const workflowId = `eval/${id}`;
  const ui =
    temporal.ui === ''
      ? ''
      : `${temporal.ui}/namespaces/${temporal.namespace}/workflows/${encodeURIComponent(workflowId)}`;
  if (ui) screen.line(`Temporal UI: ${ui}`);
  const handle = longhaul.evaluation(id);
  if (detach) return { eval: id, evalDir: evalFolder(config.dir, id), workflowId, ui };
  await followEval(longhaul, id, screen, signal);
  const failure: unknown = await handle.result().then(
    () => undefined,
    (error: unknown) => error,
  );
  const results = await evalResultsOf(id, store);
  // A refused configuration: the recorded results belong to an earlier one.
  if (failure !== undefined && (!results || exitCodeOf(failure) === 2)) throw failureOf(id, failure, 'eval');
  if (!results) throw new JobFailed(`eval ${id} ended, but this folder's store has no results of it`);
  for (const line of evalReportLines(results, failure === undefined ? results.message : '')) screen.line(line);
  if (failure === undefined) return results;
  throw new JobFailed(
    `eval ${id} ${results.status}${results.message ? `: ${results.message}` : ''}; ` +
      `make what is missing with the same command: ${options.again}`,
    results,
    { cause: failure },
  );
}

/**
 * Errors: `UserInputError` for inputs that cannot be used, or an eval of this name with another configuration;
 * `DiskUnusable`; `Unreachable` if the stack does not start; `RunRefused` or `JobFailed`, the latter with the results;
 * `Interrupted`, whose message says how to attach.
 */
export async function runEval(config: SweepConfig, options: EvalOptions): Promise<EvalResults | EvalStart> {
  const { screen, signal, again } = options;
  refuseUnusableDisks([
    ...stackPlaces(stackHome()),
    { what: 'the folder of the eval', dir: evalFolder(config.dir, config.eval) },
  ]);
  const { settled, whole } = await before(config);
  if (whole) {
    screen.line(`eval ${config.eval} is complete: showing it (start another with --eval-id NEW)`);
    for (const line of evalReportLines(whole)) screen.line(line);
    return whole;
  }
  await options.allow();
  let started = false;
  try {
    return await withStack(screen, signal, async (stack) => {
      await stack.longhaul.evaluate(config);
      started = true;
      for (const line of evalPlanLines(settled, config)) screen.line(line);
      return onStack(config, stack, options);
    });
  } catch (error) {
    if (!signal.aborted || exitCodeOf(error) === 2) throw error;
    const message = started
      ? `eval ${config.eval} continues; attach with: ${again}`
      : `interrupted before eval ${config.eval} was started. The stack may be running; stop it with: npx longhaul down`;
    throw new Interrupted(message, { cause: error });
  }
}
