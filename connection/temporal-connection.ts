/** A worker's connection to Temporal, by Temporal's environment variables and profiles. The stack sets them. */

import { NativeConnection, type NativeConnectionOptions } from '@temporalio/worker';
import { STACK_ID_VARIABLE, type WrongStack } from './stack-identity.ts';
import { stackNow } from './stack-now.ts';
import { stackHome, stackPaths } from './stack-paths.ts';
import { readStackState } from './stack-state.ts';
import { StackWatch } from './stack-watch.ts';
import { Unreachable } from './unreachable.ts';
import { temporalConfig } from './client-config.ts';

export interface WorkerConnection {
  readonly connection: NativeConnection;
  readonly namespace: string;
  readonly address: string;
  /** Present for a stack with its own server. */
  readonly watch?: StackWatch;
}

/** To a server on the same machine compression costs time and saves nothing. Else Temporal's default applies. */
export function compressionFor(address: string): Pick<NativeConnectionOptions, 'grpcCompression'> {
  const local = /^(127\.\d+\.\d+\.\d+|localhost|\[::1\]):\d+$/.test(address);
  return local ? { grpcCompression: { codec: 'none' } } : {};
}

const START = 'Start the stack: npx longhaul up --detach, or set TEMPORAL_ADDRESS';

/** The server of a worker. `id`: of the worker's stack, absent for an external cluster. */
interface Place {
  readonly address: string;
  readonly namespace?: string | undefined;
  readonly id?: string;
}

/** A supervisor's worker has it in its environment. A worker started by hand uses its folder's stack. */
function placeOf(env: NodeJS.ProcessEnv, address: string | undefined): Place {
  const id = env[STACK_ID_VARIABLE];
  if (address) return { address, ...(id ? { id } : {}) };
  const home = stackHome(env);
  const state = readStackState(stackPaths(home).state);
  if (state === undefined) throw new Unreachable(`The stack in ${home}`, START, { how: 'is not up' });
  if (state.ports === undefined) return { address: state.address, namespace: state.namespace };
  const now = stackNow(home);
  if (now.status !== 'up')
    throw new Unreachable(`The stack in ${home}`, START, {
      how: now.status === 'down' ? 'is not up' : 'is still starting',
    });
  return { address: now.address, namespace: state.namespace, id: now.id };
}

/**
 * Connects a worker. If its server later turns out to be another stack's, the process ends at once, without draining:
 * its tasks could be the other stack's. `report` logs the reason.
 * Errors: `Unreachable`, naming the address or the folder; `WrongStack` if the server is another stack's;
 * `UserInputError` for a profile that does not exist.
 */
export async function connectWorker(
  env: NodeJS.ProcessEnv = process.env,
  report: (error: WrongStack) => void = ({ message }) => console.error(message),
): Promise<WorkerConnection> {
  const { connectionOptions, namespace } = temporalConfig(env);
  const { address, id, namespace: ofStack } = placeOf(env, connectionOptions.address);
  const end = (error: WrongStack): void => {
    report(error);
    process.exit(3);
  };
  const watch = id === undefined ? undefined : await StackWatch.begin({ home: stackHome(env), address, id }, end);
  const connection = await NativeConnection.connect({
    ...compressionFor(address),
    ...connectionOptions,
    address,
  }).catch(async (error: unknown) => {
    await watch?.close();
    throw new Unreachable(`Temporal at ${address}`, START, { cause: error });
  });
  return { connection, namespace: namespace ?? ofStack ?? 'default', address, ...(watch ? { watch } : {}) };
}
