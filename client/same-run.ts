/** Whether a run that goes on under a name is the one that is asked for. */

import type { Client } from '@temporalio/client';
import { resolveRunConfig } from '../config/run-config.ts';
import type { RunConfig } from '../protocol/run-config.ts';
import { refuseOtherSettings, settingsMemo } from './same-settings.ts';

/** All that a run which goes on would ignore of other settings; where its folder is made does not matter to it. */
function settled({ dir: _dir, ...rest }: RunConfig): object {
  return rest;
}

export const runMemo = (config: RunConfig) => settingsMemo(settled(config));

/** Errors: `UserInputError` for the first setting that the run which goes on began with otherwise. */
export function refuseOtherRun(client: Client, config: RunConfig): Promise<void> {
  const name = config.run;
  const read = (given: unknown) => settled(resolveRunConfig({ ...(given as object), run: name }, process.cwd()));
  return refuseOtherSettings(client, {
    kind: 'run',
    name,
    workflowId: `train/${name}`,
    settings: settled(config),
    read,
  });
}
