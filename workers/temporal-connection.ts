/** Where Temporal is, by its own environment variables and profiles; the stack sets them for its workers. */

import { NativeConnection, type NativeConnectionOptions } from '@temporalio/worker';
import { Unreachable } from './stack/unreachable.ts';
import { temporalConfig } from './temporal-server/client-config.ts';

export interface WorkerConnection {
  readonly connection: NativeConnection;
  readonly namespace: string;
  readonly address: string;
}

/** On this machine compressing costs processor time and saves nothing; elsewhere Temporal's default stands. */
export function compressionFor(address: string): Pick<NativeConnectionOptions, 'grpcCompression'> {
  const local = /^(127\.\d+\.\d+\.\d+|localhost|\[::1\]):\d+$/.test(address);
  return local ? { grpcCompression: { codec: 'none' } } : {};
}

/** Errors: `Unreachable`, naming the address; `UserInputError` for a profile that there is not. */
export async function connectWorker(): Promise<WorkerConnection> {
  const { connectionOptions, namespace } = temporalConfig();
  const address = connectionOptions.address || 'localhost:7233';
  const connection = await NativeConnection.connect({ ...compressionFor(address), ...connectionOptions, address }).catch((error: unknown) => {
    throw new Unreachable(`Temporal at ${address}`, 'Start the stack: npx longhaul up --detach, or set TEMPORAL_ADDRESS', { cause: error });
  });
  return { connection, namespace: namespace ?? 'default', address };
}
