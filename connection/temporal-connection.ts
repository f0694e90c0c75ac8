/** Where Temporal is, by its own environment variables and profiles; the stack sets them for its workers. */

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
  /** Of a stack with a server of its own. */
  readonly watch?: StackWatch;
}

/** On this machine compressing costs processor time and saves nothing; elsewhere Temporal's default stands. */
export function compressionFor(address: string): Pick<NativeConnectionOptions, 'grpcCompression'> {
  const local = /^(127\.\d+\.\d+\.\d+|localhost|\[::1\]):\d+$/.test(address);
  return local ? { grpcCompression: { codec: 'none' } } : {};
}

const START = 'Start the stack: npx longhaul up --detach, or set TEMPORAL_ADDRESS';

/** Where a worker's work comes from; `id` is of the stack that it belongs to, and absent for a cluster that is not ours. */
interface Place {
  readonly address: string;
  readonly namespace?: string | undefined;
  readonly id?: string;
}

/** A worker of the supervisor has all of it in its environment; one that was started by hand finds its folder's stack. */
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
 * A worker whose server has become another stack's ends at once, without draining: what it would still do could be the
 * other stack's. `report` writes down why. Errors: `Unreachable`, naming the address or the folder; `WrongStack` where the server is another stack's;
 * `UserInputError` for a profile that there is not.
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
