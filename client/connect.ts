/**
 * Connects a Temporal client: by explicit options, by Temporal's environment variables and profiles, or to the stack of
 * the folder, in this order. A folder's stack is identified by its id: the server of another stack is an error.
 */

import { Client, Connection, type ConnectionOptions } from '@temporalio/client';
import { stackHome, stackPaths } from '../connection/stack-paths.ts';
import { naming } from '../connection/stack-identity.ts';
import { linkOptions } from '../connection/stack-link.ts';
import { stackNow } from '../connection/stack-now.ts';
import { readStackState } from '../connection/stack-state.ts';
import { temporalConfig } from '../connection/client-config.ts';
import { Unreachable, WrongStack } from './errors.ts';

const CONNECT_TIMEOUT = '10s';

export interface ConnectOptions {
  /** Overrides `TEMPORAL_ADDRESS` and the profile. Any server that answers there is used. */
  readonly address?: string;
  readonly namespace?: string;
  /** The folder of a stack, if no address is given; default: `$LONGHAUL_HOME`, else `.longhaul` below `cwd`. */
  readonly home?: string;
}

/** Environment and working directory to use; default: this process's. */
export interface Surroundings {
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
}

const START =
  'Start the stack: npx longhaul up --detach. Or name a cluster: by TEMPORAL_ADDRESS, by a Temporal profile, ' +
  'or in a program by connect({ address })';

/**
 * Errors: `UserInputError` for a profile that does not exist; `Unreachable` if no address is given and the folder's
 * stack is not up, or without a connection after 10 s; `WrongStack` if another stack has the folder's stack's port.
 */
export async function connectClient(
  options: ConnectOptions = {},
  { env = process.env, cwd = process.cwd() }: Surroundings = {},
): Promise<Client> {
  const { connectionOptions, namespace } = temporalConfig(env);
  const address = options.address ?? connectionOptions.address;
  const wanted = options.namespace ?? namespace;
  if (address) return connected({ ...connectionOptions, address }, wanted);
  return connectHome(options.home ?? stackHome(env, cwd), wanted, connectionOptions);
}

async function connectHome(home: string, namespace: string | undefined, others: ConnectionOptions): Promise<Client> {
  const state = readStackState(stackPaths(home).state);
  const down = (how: string) => new Unreachable(`The stack in ${home}`, START, { how });
  if (state === undefined) throw down('is not up');
  const ofStack = namespace ?? state.namespace;
  // The stack runs on an existing cluster, which has no stack id.
  if (state.ports === undefined) return connected({ ...others, address: state.address }, ofStack);
  const { status, address, id } = stackNow(home);
  if (status === 'down') throw down('is not up');
  if (status === 'coming') throw down('is still starting');
  return connected(linkOptions({ home, address, id }, { now: () => stackNow(home) }), ofStack);
}

async function connected(options: ConnectionOptions, namespace = 'default'): Promise<Client> {
  const connection = Connection.lazy({ ...options, connectTimeout: CONNECT_TIMEOUT });
  try {
    await naming(() => connection.ensureConnected());
    return new Client({ connection, namespace });
  } catch (error) {
    await connection.close();
    throw error instanceof WrongStack
      ? error
      : new Unreachable(`Temporal at ${options.address ?? ''}`, START, { cause: error });
  }
}
