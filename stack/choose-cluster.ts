/** Which Temporal is used: the one that Temporal's own variables and profiles name, else the embedded server. */

import type { NativeConnectionOptions } from '@temporalio/worker';
import { temporalConfig } from '../connection/client-config.ts';

export type Cluster =
  | { readonly kind: 'embedded'; readonly namespace: string }
  | {
      readonly kind: 'existing';
      readonly namespace: string;
      readonly address: string;
      readonly connection: NativeConnectionOptions;
    };

/** Reads `TEMPORAL_ADDRESS`, `TEMPORAL_PROFILE`, … and Temporal's configuration file. Errors: `UserInputError`. */
export function chooseCluster(env: NodeJS.ProcessEnv = process.env): Cluster {
  const { connectionOptions, namespace = 'default' } = temporalConfig(env);
  const address = connectionOptions.address;
  if (address === undefined || address === '') return { kind: 'embedded', namespace };
  return { kind: 'existing', namespace, address, connection: connectionOptions };
}
