/** The end of a run: where its results are and, if its end is in the store, its summary, without a call to Temporal. */

import { join } from 'node:path';
import { type RunSummary, summaryOf, type TemporalPlace } from '../../reports/run-summary.ts';
import { openReadModel } from '../../reports/read-model/read-model.ts';
import { openStore, storeExists } from '../../store/open-store.ts';
import { stackHome, stackPaths } from '../../connection/stack-paths.ts';
import { storeUrl } from '../../connection/store-url.ts';
import { readStackState } from '../../connection/stack-state.ts';
import type { RunConfig } from '../../protocol/run-config.ts';
import { UserInputError } from '../../client/errors.ts';
import type { CheckedTasks } from '../../config/open-tasks.ts';
import { checkInputs } from './check-inputs.ts';
import { existingRun } from './existing-run.ts';
import type { Screen } from './follow.ts';
import { reportLines } from './report.ts';

export interface TrainEnd {
  readonly run: string;
  readonly runDir: string;
  readonly workflowId: string;
  readonly ui: string;
  /** Absent after `--detach`. */
  readonly summary?: RunSummary;
}

export function endOf(config: RunConfig, { ui, namespace }: TemporalPlace): TrainEnd {
  const workflowId = `train/${config.run}`;
  const url = ui === '' ? '' : `${ui}/namespaces/${namespace}/workflows/${encodeURIComponent(workflowId)}`;
  return { run: config.run, runDir: join(config.dir, config.run), workflowId, ui: url };
}

/** Errors: `UserInputError` if the run has completed. */
function refuseCompleted({ run }: RunConfig, { status }: RunSummary): void {
  if (status === 'completed')
    throw new UserInputError(
      '--again',
      run,
      'it has completed, and there is nothing to resume: leave --again out to show it, or start another with ' +
        '--run-id NEW',
    );
}

/** What is known of a run before it is started or attached to. */
export interface KnownRun {
  /** Present if it has ended and is not to be resumed. */
  readonly ended?: TrainEnd;
  /** Present if it is new. */
  readonly tasks?: CheckedTasks;
}

/**
 * A new run's inputs are checked; a run that has ended, and is not to be resumed (`again`), is shown from the store
 * alone. Errors: `UserInputError` for another configuration or bad inputs, and for a completed run with `again`.
 */
export async function knownRun(config: RunConfig, screen: Screen, again = false): Promise<KnownRun> {
  const home = stackHome();
  const url = storeUrl(home);
  if (!(await storeExists(url))) {
    return { tasks: await checkInputs(config) };
  }
  const store = await openStore(url);
  const model = openReadModel(store, home);
  try {
    const tasks = (await existingRun(config, store)) ? undefined : await checkInputs(config);
    const { address = '', namespace = 'default', ui = '' } = readStackState(stackPaths(home).state) ?? {};
    const temporal = { address, namespace, ui };
    const summary = await summaryOf(config.run, store, temporal, model);
    if (!summary || summary.status === 'running') return tasks ? { tasks } : {};
    if (again) {
      refuseCompleted(config, summary);
      screen.line(
        `run ${config.run} has ${summary.status === 'failed' ? 'failed' : 'been cancelled'}: ` +
          'it is resumed from its records',
      );
      return {};
    }
    const ended =
      summary.status === 'completed' ? 'completed' : summary.status === 'failed' ? 'failed' : 'been cancelled';
    screen.line(
      `run ${config.run} exists and has ${ended}: ` +
        'showing it ' +
        `(${summary.status === 'completed' ? '' : 'resume it from its records with --again, or '}start another ` +
        'with --run-id NEW)',
    );
    const end = endOf(config, temporal);
    for (const line of await reportLines(summary, end.runDir, store)) screen.line(line);
    return { ended: { ...end, summary } };
  } finally {
    model.close();
    await store.close();
  }
}
