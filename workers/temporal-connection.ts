/** Where Temporal is, by its own environment variables and profiles; the stack sets them for its workers. */

import { loadClientConnectConfig } from '@temporalio/envconfig';
import { NativeConnection } from '@temporalio/worker';
import { Unreachable } from './stack/unreachable.ts';

export interface WorkerConnection {
  readonly connection: NativeConnection;
  readonly namespace: string;
  readonly address: string;
}

/** Errors: `Unreachable`, naming the address. */
export async function connectWorker(): Promise<WorkerConnection> {
  const { connectionOptions, namespace } = loadClientConnectConfig();
  const address = connectionOptions.address ?? 'localhost:7233';
  const connection = await NativeConnection.connect({ ...connectionOptions, address }).catch((error: unknown) => {
    throw new Unreachable(`Temporal at ${address}`, 'Start the stack: npx longhaul up --detach, or set TEMPORAL_ADDRESS', { cause: error });
  });
  return { connection, namespace: namespace ?? 'default', address };
}
