/** A base that adapters share: its weights are read once, and nothing changes them. */

import { UserInputError } from '../../protocol/user-input-error.ts';
import { readVerifiedConfig, readVerifiedPolicy } from '../checkpoints/verified-checkpoint.ts';
import { readAdapterJson } from '../lora/adapter-files.ts';
import { Policy } from '../model/policy.ts';
import { GrowingRotaryTables } from '../model/layers/rotary.ts';

export interface TenantBase {
  readonly dir: string;
  readonly policy: Policy;
  readonly tables: GrowingRotaryTables;
  dispose(): void;
}

/**
 * Reads the model in `dir`. Errors: `UserInputError` if it is an adapter; `UnsupportedModel`, `WrongWeights`,
 * `BadSafetensors`, `CheckpointTorn`.
 */
export async function loadTenantBase(dir: string): Promise<TenantBase> {
  if ((await readAdapterJson(dir)) !== undefined)
    throw new UserInputError(
      'base model',
      dir,
      'give a whole model: adapters are added to those. Export it merged first',
    );
  const [config, { weights }] = await Promise.all([readVerifiedConfig(dir), readVerifiedPolicy(dir)]);
  const policy = new Policy(config, weights);
  const tables = new GrowingRotaryTables(config);
  return {
    dir,
    policy,
    tables,
    dispose() {
      policy.dispose();
      tables.dispose();
    },
  };
}
