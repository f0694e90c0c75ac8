/** The embedded Temporal server as a process of the stack: every start has the same database and, if free, ports. */

import { checkCluster, clusterId } from './temporal-server/cluster-health.ts';
import { chooseHidden, choosePort, isPortFree } from './temporal-server/free-port.ts';
import { setRetention } from './temporal-server/retention.ts';
import { serverArguments } from './temporal-server/server-arguments.ts';
import { serverEnvironment } from './temporal-server/server-environment.ts';
import { isClaimedByOther } from './port-claims.ts';
import { isIdOf } from '../connection/stack-identity.ts';
import { digestOf, type ProcessSpec } from './processes/process-spec.ts';
import type { StackPaths } from '../connection/stack-paths.ts';
import type { StackPlan } from './stack-plan.ts';
import type { StackState, UiAddress } from '../connection/stack-state.ts';
import { join } from 'node:path';

export const SERVER = 'temporal';
const DEFAULT_PORT = 7233;
const DEFAULT_UI_PORT = 8233;

export interface ServerPorts {
  readonly temporal: number;
  /** The port where browsers find the UI. */
  readonly ui: number;
  /** The address of the UI itself, which no web page can guess. */
  readonly behind: UiAddress;
}

/** The previous ports if they are free, else Temporal's defaults, else any; never those of another live stack. */
export async function choosePorts(home: string, previous: StackState | undefined): Promise<ServerPorts> {
  const last = previous?.ports;
  const isOthers = (port: number) => isClaimedByOther(home, port);
  const temporal = await choosePort([...(last ? [last.temporal] : []), DEFAULT_PORT], isOthers);
  const ui = await choosePort(
    [...(last ? [last.ui] : []), DEFAULT_UI_PORT],
    (port) => port === temporal || isOthers(port),
  );
  const behind =
    last?.behind !== undefined && (await isPortFree(last.behind.port, last.behind.host))
      ? last.behind
      : await chooseHidden();
  return { temporal, ui, behind };
}

export function serverSpec(
  paths: StackPaths,
  program: string,
  ports: ServerPorts,
  { namespace, retentionHours }: Pick<StackPlan, 'namespace' | 'retentionHours'>,
): ProcessSpec {
  const address = `127.0.0.1:${ports.temporal}`;
  const args = serverArguments({ port: ports.temporal, ui: ports.behind, database: paths.database, namespace });
  const command = { name: SERVER, command: program, args, env: serverEnvironment(process.env) };
  return {
    ...command,
    env: { ...process.env, ...command.env },
    log: join(paths.logs, `${SERVER}.log`),
    digest: digestOf(command),
    beforeStart: () => undefined,
    isReady: () => isPrepared(paths, address, namespace, retentionHours),
  };
}

/** True if our own server answers and has the required retention. */
async function isPrepared(
  paths: StackPaths,
  address: string,
  namespace: string,
  retentionHours: number,
): Promise<boolean> {
  try {
    await checkCluster({ address }, namespace, 1_000);
    if ((await ownId(paths, address)) === '') return false;
    await setRetention({ address }, namespace, retentionHours, 5_000);
    return true;
  } catch {
    return false;
  }
}

/** The id of the server at `address` if it is that of our database; empty if another server or none answers there. */
export async function ownId({ database }: Pick<StackPaths, 'database'>, address: string): Promise<string> {
  const id = await clusterId({ address }, 1_000).catch(() => '');
  return isIdOf(database, id) ? id : '';
}
