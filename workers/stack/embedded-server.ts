/** The embedded Temporal server as a process of the stack: the same database and ports from one start to the next. */

import { checkCluster } from '../temporal-server/cluster-health.ts';
import { chooseHidden, choosePort, isPortFree } from '../temporal-server/free-port.ts';
import { serverArguments } from '../temporal-server/server-arguments.ts';
import { isClaimedByOther } from './port-claims.ts';
import { digestOf, type ProcessSpec } from './processes/process-spec.ts';
import type { StackPaths } from './stack-paths.ts';
import type { StackState } from './stack-state.ts';
import type { UiAddress } from './ui-proxy.ts';
import { join } from 'node:path';

export const SERVER = 'temporal';
const DEFAULT_PORT = 7233;
const DEFAULT_UI_PORT = 8233;

export interface ServerPorts {
  readonly temporal: number;
  /** Where browsers find the UI. */
  readonly ui: number;
  /** Where the UI itself is: an address that no page guesses. */
  readonly behind: UiAddress;
}

/** The ports of last time where they are free, then Temporal's own, then any; none that is another living stack's. */
export async function choosePorts(home: string, previous: StackState | undefined): Promise<ServerPorts> {
  const last = previous?.ports;
  const isOthers = (port: number) => isClaimedByOther(home, port);
  const temporal = await choosePort([...(last ? [last.temporal] : []), DEFAULT_PORT], isOthers);
  const ui = await choosePort([...(last ? [last.ui] : []), DEFAULT_UI_PORT], (port) => port === temporal || isOthers(port));
  const behind = last?.behind !== undefined && (await isPortFree(last.behind.port, last.behind.host)) ? last.behind : await chooseHidden();
  return { temporal, ui, behind };
}

export function serverSpec(paths: StackPaths, program: string, ports: ServerPorts, namespace: string): ProcessSpec {
  const address = `127.0.0.1:${ports.temporal}`;
  const args = serverArguments({ port: ports.temporal, ui: ports.behind, database: paths.database, namespace });
  const command = { name: SERVER, command: program, args, env: {} };
  return {
    ...command,
    env: process.env,
    log: join(paths.logs, `${SERVER}.log`),
    digest: digestOf(command),
    beforeStart: () => undefined,
    isReady: () => checkCluster({ address }, namespace, 1_000).then(
      () => true,
      () => false,
    ),
  };
}
