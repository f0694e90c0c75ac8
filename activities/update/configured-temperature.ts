/** The temperature of turns whose records do not say it: those of before it was noted. */

import type { Store } from '../../store/store.ts';
import type { UpdateInput } from '../../protocol/update.ts';
import { changed } from '../../workflows/training/reconfigure.ts';
import { type GenerateRecord, keys, type RunRecord } from '../../protocol/records.ts';
import { changesOfRun } from '../../store/read-records.ts';

export const saysTemperature = ({ sampled, temperature }: GenerateRecord): boolean =>
  sampled.length === 0 || temperature !== undefined;

/** As the run was configured when the step began; 1 where the run's record does not say that either. */
export async function configuredTemperature(
  { run, step = 1 }: Partial<Pick<UpdateInput, 'run' | 'step'>>,
  store: Store,
): Promise<number> {
  const config = run === undefined ? undefined : (await store.get<RunRecord>(keys.run(run)))?.config;
  if (run === undefined || config === undefined) return 1;
  const before = (await changesOfRun(store, run)).filter((change) => change.step < step);
  return changed(config, before).sampling.temperature;
}
