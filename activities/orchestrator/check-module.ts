/**
 * A run's own module: errors that the training workers would find after the first rollouts are found when the run
 * opens.
 */

import type { Store } from '../../store/store.ts';
import { advantageEstimators } from '../../trainer/algorithms/advantages/registry.ts';
import { loadAlgorithms, namesOfModule } from '../../trainer/algorithms/own-module.ts';
import { policyLosses } from '../../trainer/algorithms/losses/registry.ts';
import { NameTaken } from '../../modules/registry.ts';
import type { ObjectRef } from '../../protocol/stages.ts';
import type { AlgorithmSettings, RunConfig } from '../../protocol/run-config.ts';
import { checkDefinitions } from '../../config/algorithm/config.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { keys, type RunRecord } from '../../protocol/records.ts';
import { endOfRun } from '../../reports/run-end.ts';

function refuse(module: string, error: unknown): never {
  const reason = error instanceof Error ? error.message : String(error);
  throw new UserInputError('algorithm.module', module, `it must load on the workers (${reason})`);
}

/** Modules of other runs that have not ended: the same workers load them. */
async function modulesOfOthers(run: string, store: Store): Promise<string[]> {
  const modules: string[] = [];
  for (const { value } of await store.list<RunRecord>(keys.run(''))) {
    const module = value.config?.algorithm.module;
    if (value.run !== run && module !== undefined && !(await endOfRun(value.run, store))) modules.push(module);
  }
  return modules;
}

/**
 * Refuses names that only another module defines: the training thread loads this module alone, and would not know them.
 */
async function checkOwnNames(module: string, { advantage, loss = 'regular' }: AlgorithmSettings): Promise<void> {
  const asked = [
    ['advantage', advantage, advantageEstimators.moduleOf(advantage)],
    ['loss', loss, policyLosses.moduleOf(loss)],
  ] as const;
  const foreign = asked.filter(([, , by]) => by !== undefined && by !== module);
  if (foreign.length === 0) return;
  const names = await namesOfModule(module).catch((error: unknown) => refuse(module, error));
  for (const [kind, name, by] of foreign) {
    if (!names[kind].includes(name))
      throw new UserInputError(
        `algorithm.${kind}`,
        name,
        `algorithm.module does not define it: set algorithm.module to ${by}, which defines it, or import that file in yours`,
      );
  }
}

/**
 * `modules`: digest of the run's modules, imported. Errors: `UserInputError` for a module that cannot be loaded, that
 * defines a name of another run's module, or that does not define a name that the configuration uses.
 */
export async function checkModule(
  { run, algorithm, training }: RunConfig,
  modules: ObjectRef | undefined,
  store: Store,
): Promise<void> {
  const { module } = algorithm;
  if (module !== undefined) {
    for (const other of await modulesOfOthers(run, store)) {
      await loadAlgorithms({ module: other }).catch((error: unknown) => {
        // Other errors in another run's module do not concern this run.
        if (error instanceof NameTaken && error.modules.includes(module)) refuse(module, error);
      });
    }
    await loadAlgorithms({ module }).catch((error: unknown) => refuse(module, error));
    await checkOwnNames(module, algorithm);
  }
  checkDefinitions(algorithm, training?.mode, modules);
}
