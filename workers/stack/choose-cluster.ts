/** Whose Temporal is used: the one that its own variables and profiles name, else the embedded server. */

import { loadClientConnectConfig } from '@temporalio/envconfig';
import type { NativeConnectionOptions } from '@temporalio/worker';

export type Cluster =
  | { readonly kind: 'embedded'; readonly namespace: string }
  | {
      readonly kind: 'existing';
      readonly namespace: string;
      readonly address: string;
      readonly connection: NativeConnectionOptions;
    };

/** Reads `TEMPORAL_ADDRESS`, `TEMPORAL_PROFILE` and the other variables, and Temporal's configuration file. */
export function chooseCluster(env: NodeJS.ProcessEnv = process.env): Cluster {
  const overrideEnvVars = Object.fromEntries(Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined));
  const { connectionOptions, namespace = 'default' } = loadClientConnectConfig({ overrideEnvVars });
  const address = connectionOptions.address;
  if (address === undefined || address === '') return { kind: 'embedded', namespace };
  return { kind: 'existing', namespace, address, connection: connectionOptions };
}
