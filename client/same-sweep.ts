/** Whether a sweep that goes on under an eval's name is the one that is asked for. */

import type { Client } from '@temporalio/client';
import { resolveSweepConfig } from '../config/sweep-config.ts';
import type { SweepConfig } from '../protocol/eval.ts';
import { refuseOtherSettings, settingsMemo } from './same-settings.ts';

/** All that a sweep which goes on would ignore of other settings; where its folder is made does not matter to it. */
function settled({ dir: _dir, policies, ...rest }: SweepConfig): object {
  return { ...rest, policies: Object.fromEntries(policies.map(({ name, ...policy }) => [name, policy])) };
}

export const sweepMemo = (config: SweepConfig) => settingsMemo(settled(config));

/** Errors: `UserInputError` for the first setting that is another one in the sweep that goes on. */
export function refuseOtherSweep(client: Client, config: SweepConfig): Promise<void> {
  const name = config.eval;
  const read = (given: unknown) => settled(resolveSweepConfig({ ...(given as object), eval: name }, process.cwd()));
  return refuseOtherSettings(client, {
    kind: 'eval',
    name,
    workflowId: `eval/${name}`,
    settings: settled(config),
    read,
  });
}
