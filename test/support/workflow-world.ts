/** A real Temporal server's namespace with workers for every queue in this process, over scripted activities. */

import { Client, Connection } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { buildWorkflowBundle } from '../../workers/workflow-bundle.ts';
import { hostQueue, QUEUES } from '../../workflows/queues.ts';
import { type Log, type Script, type ScriptedActivities, scriptedActivities } from './scripted-activities.ts';
import { quietTemporal } from './quiet-temporal.ts';

export interface World {
  readonly client: Client;
  readonly log: Log;
  stop(): Promise<void>;
}

/**
 * Starts workers at `address`; one world at a time per server, since queues have fixed names. `replaced` makes the
 * activities that are not scripted.
 */
export async function startWorld(
  address: string,
  script: Script,
  replaced: (scripted: ScriptedActivities) => Partial<ScriptedActivities> = () => ({}),
): Promise<World> {
  quietTemporal();
  const log: Log = { calls: [], live: 0, peakLive: 0 };
  const scripted = scriptedActivities(script, log);
  const activities = { ...scripted, ...replaced(scripted) };
  const connection = await NativeConnection.connect({ address });
  const queues: Array<[string, object]> = [
    [QUEUES.init, activities.init],
    [QUEUES.gpu, activities.gpu],
    [QUEUES.endpoint, activities.gpu],
    [QUEUES.reward, activities.reward],
    [hostQueue('test-host'), activities.agentRun],
  ];
  const pollers = { type: 'simple-maximum' as const, maximum: 2 };
  const workers = [
    await Worker.create({
      connection,
      taskQueue: QUEUES.orchestrator,
      workflowBundle: { codePath: await buildWorkflowBundle() },
      activities: { ...activities.orchestrator, ...activities.sweeps },
      workflowTaskPollerBehavior: pollers,
    }),
    ...(await Promise.all(
      queues.map(([taskQueue, own]) =>
        Worker.create({ connection, taskQueue, activities: { ...own }, activityTaskPollerBehavior: pollers }),
      ),
    )),
  ];
  const running = Promise.all(workers.map((worker) => worker.run()));
  const clientConnection = await Connection.connect({ address });
  return {
    client: new Client({ connection: clientConnection }),
    log,
    async stop() {
      for (const worker of workers) worker.shutdown();
      await running;
      await clientConnection.close();
      await connection.close();
    },
  };
}
