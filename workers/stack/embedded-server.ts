/** The embedded Temporal server as a process of the stack: the same database and ports from one start to the next. */

import { checkCluster } from '../temporal-server/cluster-health.ts';
import { choosePort } from '../temporal-server/free-port.ts';
import { setRetention } from '../temporal-server/retention.ts';
import { serverArguments } from '../temporal-server/server-arguments.ts';
import { serverEnvironment } from '../temporal-server/server-environment.ts';
import { isClaimedByOther } from './port-claims.ts';
import { digestOf, type ProcessSpec } from './processes/process-spec.ts';
import type { StackPaths } from './stack-paths.ts';
import type { StackPlan } from './stack-plan.ts';
import type { StackState } from './stack-state.ts';
import { join } from 'node:path';

export const SERVER = 'temporal';
const DEFAULT_PORT = 7233;
const DEFAULT_UI_PORT = 8233;

export interface ServerPorts {
  readonly temporal: number;
  readonly ui: number;
}

/** The ports of last time where they are free, then Temporal's own, then any; none that is another living stack's. */
export async function choosePorts(home: string, previous: StackState | undefined): Promise<ServerPorts> {
  const last = previous?.ports;
  const isOthers = (port: number) => isClaimedByOther(home, port);
  const temporal = await choosePort([...(last ? [last.temporal] : []), DEFAULT_PORT], isOthers);
  const ui = await choosePort([...(last ? [last.ui] : []), DEFAULT_UI_PORT], (port) => port === temporal || isOthers(port));
  return { temporal, ui };
}

export function serverSpec(paths: StackPaths, program: string, ports: ServerPorts, { namespace, retentionHours }: Pick<StackPlan, 'namespace' | 'retentionHours'>): ProcessSpec {
  const address = `127.0.0.1:${ports.temporal}`;
  const args = serverArguments({ port: ports.temporal, uiPort: ports.ui, database: paths.database, namespace });
  const command = { name: SERVER, command: program, args, env: serverEnvironment(process.env) };
  return {
    ...command,
    env: { ...process.env, ...command.env },
    log: join(paths.logs, `${SERVER}.log`),
    digest: digestOf(command),
    beforeStart: () => undefined,
    isReady: () => isPrepared(address, namespace, retentionHours),
  };
}

/** Whether it answers and keeps histories as long as it is wanted to. */
async function isPrepared(address: string, namespace: string, retentionHours: number): Promise<boolean> {
  try {
    await checkCluster({ address }, namespace, 1_000);
    await setRetention({ address }, namespace, retentionHours, 5_000);
    return true;
  } catch {
    return false;
  }
}
