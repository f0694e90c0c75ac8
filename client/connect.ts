/**
 * A Temporal client: by explicit options, Temporal's own environment variables and profiles, or the stack of the folder,
 * in this order. A folder's stack is known by its id, and the server of another one is refused.
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
  /** Overrides `TEMPORAL_ADDRESS` and the profile. Whoever answers there is taken. */
  readonly address?: string;
  readonly namespace?: string;
  /** The folder of a stack, where no address is named: default `$LONGHAUL_HOME`, else `.longhaul` in the working directory. */
  readonly home?: string;
}

/** Where `options` come from; default: this process's. */
export interface Surroundings {
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
}

const START =
  'Start the stack: npx longhaul up --detach. Or name a cluster: by TEMPORAL_ADDRESS, by a Temporal profile, or in a program by connect({ address })';

/**
 * Errors: `UserInputError` for a profile that there is not; `Unreachable` where no address is named and the folder has no
 * stack that is up; `WrongStack` where another stack has its port; a connection error after 10 s.
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
  // It runs on a cluster that is not its own: that has no id of ours.
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
