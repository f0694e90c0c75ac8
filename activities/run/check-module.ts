/** A run's module of one's own: what the workers that train would refuse after the first rollouts is refused when the run opens. */

import type { Store } from '../../store/store.ts';
import { loadAlgorithms } from '../../trainer/algorithms/load-module.ts';
import { NameTaken } from '../../trainer/algorithms/registry.ts';
import type { RunConfig } from '../../workflows/messages/run-config.ts';
import { checkDefinitions } from '../algorithm/config.ts';
import { UserInputError } from '../failures.ts';
import { keys, type RunRecord } from '../records.ts';

function refuse(module: string, error: unknown): never {
  const reason = error instanceof Error ? error.message : String(error);
  throw new UserInputError('algorithm.module', module, `it must load on the workers (${reason})`);
}

/** Modules of the runs that have not ended: the same workers load them. */
async function modulesOfOthers(run: string, store: Store): Promise<string[]> {
  const over = new Set((await store.list(keys.runEnd(''))).map(({ key }) => key));
  const others = (await store.list<RunRecord>(keys.run(''))).filter(({ value }) => value.run !== run && !over.has(keys.runEnd(value.run)));
  return others.flatMap(({ value: { config } }) => config?.algorithm.module ?? []);
}

/**
 * Errors: `UserInputError` for a module that cannot be loaded, that defines a name which another run's module has, or that
 * does not define what is asked for.
 */
export async function checkModule({ run, algorithm }: RunConfig, store: Store): Promise<void> {
  const { module } = algorithm;
  if (module !== undefined) {
    for (const other of await modulesOfOthers(run, store)) {
      await loadAlgorithms(other).catch((error: unknown) => {
        // What else is wrong with another's module is no matter of this run.
        if (error instanceof NameTaken && error.modules.includes(module)) refuse(module, error);
      });
    }
    await loadAlgorithms(module).catch((error: unknown) => refuse(module, error));
  }
  checkDefinitions(algorithm);
}
