/**
 * `longhaul train`: starts the stack if it is not up, starts the run or attaches to it, follows it to its end, and
 * reports. The run does not need this process: interrupting it stops nothing.
 */

import { type RunSummary, summaryOf, type TemporalPlace } from '../../reports/run-summary.ts';
import { openReadModel } from '../../reports/read-model/read-model.ts';
import type { Store } from '../../store/store.ts';
import { refuseUnusableDisks, stackPlaces } from '../../stack/disk-room.ts';
import { stackHome } from '../../connection/stack-paths.ts';
import type { RunConfig } from '../../protocol/run-config.ts';
import { type Stack, withStack } from '../connect/with-stack.ts';
import { exitCodeOf, Interrupted } from '../../client/errors.ts';
import type { Longhaul } from '../../client/longhaul.ts';
import { alreadyEnded, endOf, type TrainEnd } from './ended-run.ts';
import { followRun, type Screen, screenOn } from './follow.ts';
import { memoryLines } from './memory-plan.ts';
import { planLines } from './plan.ts';
import { reportLines } from './report.ts';
import { failureOf } from './run-failure.ts';

export interface TrainOptions {
  readonly detach: boolean;
  /** True if a run that failed or was cancelled is to be resumed from its records. */
  readonly again?: boolean;
  /** Allows the workers to use what the configuration names. Called after the configuration is checked. */
  readonly allow: () => Promise<void>;
  /** Fires when the user interrupts: following ends, the run continues. */
  readonly signal: AbortSignal;
  /** Lines for people. */
  readonly out: NodeJS.WriteStream;
}

/** Follows a running run, then reports. Errors: the workflow's failure if the run never had a summary. */
export async function followed(
  config: RunConfig,
  longhaul: Longhaul,
  store: Store,
  temporal: TemporalPlace,
  screen: Screen,
  signal: AbortSignal,
) {
  const model = openReadModel(store, stackHome());
  const summary = () => summaryOf(config.run, store, temporal, model);
  const end = endOf(config, temporal);
  let final: RunSummary | undefined;
  try {
    await followRun(longhaul.client, config.run, summary, screen, signal);
    final = await summary();
  } finally {
    model.close();
  }
  if (!final) {
    const failed = (error: unknown) => {
      throw failureOf(config.run, error);
    };
    await longhaul.run(config.run).result().catch(failed);
    return end;
  }
  for (const line of await reportLines(final, end.runDir, store)) screen.line(line);
  return { ...end, summary: final };
}

async function onStack(
  config: RunConfig,
  { longhaul, store, temporal }: Stack,
  options: TrainOptions,
  screen: Screen,
  onStart: () => void,
): Promise<TrainEnd> {
  // The run has no recorded end. If its workflow failed or was stopped all the same, it resumes from its records.
  await longhaul.train(config, { again: true });
  onStart();
  for (const line of [...planLines(config), ...(await memoryLines(config, process.env, stackHome()))])
    screen.line(line);
  const end = endOf(config, temporal);
  if (end.ui) screen.line(`Temporal UI: ${end.ui}`);
  return options.detach ? end : await followed(config, longhaul, store, temporal, screen, options.signal);
}

/**
 * Errors: `UserInputError` for inputs that cannot be used, or a run of this name with another configuration;
 * `DiskUnusable`; `Unreachable` if the stack does not start; `RunRefused` or `JobFailed` if the run failed before it
 * started; `Interrupted`, whose message says whether the run was started.
 */
export async function runTrain(config: RunConfig, options: TrainOptions): Promise<TrainEnd> {
  const screen = screenOn(options.out);
  refuseUnusableDisks([
    ...stackPlaces(stackHome()),
    { what: 'the run folder', dir: endOf(config, { address: '', namespace: '', ui: '' }).runDir },
  ]);
  const ended = await alreadyEnded(config, screen, options.again);
  if (ended) return ended;
  await options.allow();
  let started = false;
  const onStart = () => {
    started = true;
  };
  try {
    return await withStack(screen, options.signal, (stack) => onStack(config, stack, options, screen, onStart));
  } catch (error) {
    if (!options.signal.aborted || exitCodeOf(error) === 2) throw error;
    const message = started
      ? `run ${config.run} continues; attach with: npx longhaul watch ${config.run}`
      : `interrupted before run ${config.run} was started. The stack may be running; stop it with: npx longhaul down`;
    throw new Interrupted(message, { cause: error });
  }
}
