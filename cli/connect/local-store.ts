/** The store of this working directory's stack, with its runs, rollouts and trajectories. */

import { type RunSummary, summaryOf } from '../../reports/run-summary.ts';
import { type ReadModel, openReadModel } from '../../reports/read-model/read-model.ts';
import type { RunRecord } from '../../protocol/records.ts';
import { openStore, storeExists } from '../../store/open-store.ts';
import type { Store } from '../../store/store.ts';
import { stackHome, stackPaths } from '../../connection/stack-paths.ts';
import { storeUrlOf } from '../../connection/store-url.ts';
import { readStackState } from '../../connection/stack-state.ts';
import { UserInputError } from '../../client/errors.ts';
import type { VerbContext } from '../verb.ts';
import { rolloutNames, runNames, unknownName } from './known-names.ts';

export interface LocalStore {
  readonly store: Store;
  /** Indices of the store. */
  readonly model: ReadModel;
  /** No event is read for it. */
  summary(run: string): Promise<RunSummary>;
  runs(): Promise<RunRecord[]>;
}

/** The names of the runs in this working directory's store; empty if there is no store. */
export async function knownRuns(context: VerbContext): Promise<string[]> {
  if (!(await storeExists(storeUrlOf(context.env, context.cwd)))) return [];
  return withLocalStore(context, ({ model }) => runNames(model, 'run'));
}

/** As `knownRuns`, with evals as `eval/ID`, and single rollouts that have ended. */
export async function knownNames(context: VerbContext): Promise<string[]> {
  if (!(await storeExists(storeUrlOf(context.env, context.cwd)))) return [];
  return withLocalStore(context, async ({ model }) => [
    ...(await runNames(model, 'run')),
    ...(await runNames(model, 'eval')),
    ...(await rolloutNames(model)),
  ]);
}

/** Opens the store, passes it to `body`, closes it. Errors: `UserInputError` if there is none. */
export async function withLocalStore<T>(context: VerbContext, body: (local: LocalStore) => Promise<T>): Promise<T> {
  const home = stackHome(context.env, context.cwd);
  const url = storeUrlOf(context.env, context.cwd);
  if (!(await storeExists(url))) {
    throw new UserInputError('LONGHAUL_HOME', home, 'start a run first, or go to the folder that it was started in');
  }
  const stack = readStackState(stackPaths(home).state);
  const temporal = { address: stack?.address ?? '', namespace: stack?.namespace ?? 'default', ui: stack?.ui ?? '' };
  const store = await openStore(url);
  const model = openReadModel(store, home);
  const runs = async () => (await store.list<RunRecord>('run:')).map(({ value }) => value);
  try {
    return await body({
      store,
      model,
      runs,
      async summary(run) {
        const summary = await summaryOf(run, store, temporal, model);
        if (summary) return summary;
        throw await unknownName(run, model);
      },
    });
  } finally {
    model.close();
    await store.close();
  }
}
