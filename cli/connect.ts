/** A Temporal client by Temporal's own environment variables and profiles, with failures that say what to start. */

import { Client, Connection } from '@temporalio/client';
import { temporalConfig } from '../workers/temporal-server/client-config.ts';

export interface ConnectOptions {
  /** Overrides `TEMPORAL_ADDRESS` and the profile. */
  readonly address?: string;
  readonly namespace?: string;
}

/** Errors: `UserInputError` for a profile that there is not; a connection error that names the address, within 10 s. */
export async function connectClient(options: ConnectOptions = {}): Promise<Client> {
  const { connectionOptions, namespace } = temporalConfig();
  const address = options.address ?? (connectionOptions.address || 'localhost:7233');
  const connection = await Connection.connect({ ...connectionOptions, address, connectTimeout: '10s' });
  return new Client({ connection, namespace: options.namespace ?? namespace ?? 'default' });
}
