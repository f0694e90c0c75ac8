/** A real Temporal server's namespace with workers for every queue in this process, over scripted activities. */

import { Context } from '@temporalio/activity';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { readFile } from 'node:fs/promises';
import { withFailureMapping } from '../../activities/failure-mapping.ts';
import { inItsTime, OwnClock } from '../../activities/own-time.ts';
import { TURN_ENDS_MS } from '../../activities/agent-run/agent-run.ts';
import { patienceOf, whilePatient } from '../../activities/generate/endpoint-patience.ts';
import { reported } from '../../activities/tries.ts';
import type { RolloutPolicy } from '../../protocol/policy.ts';
import type { RetryPlace } from '../../protocol/failure-policy.ts';
import { buildWorkflowBundle } from '../../workers/workflow-bundle.ts';
import { hostQueue, QUEUES } from '../../protocol/queues.ts';
import { type Log, type Script, type ScriptedActivities, scriptedActivities } from './scripted-activities.ts';
import { quietTemporal } from './quiet-temporal.ts';

interface Given {
  readonly policy?: RolloutPolicy;
  readonly withinMs?: number;
}

/** Failures are counted, and times kept, as workers do it. They send no heartbeat of their own. */
function limited(place: RetryPlace, activities: object): Record<string, (...given: never[]) => Promise<unknown>> {
  const records = new Map<string, unknown>();
  const store = {
    putOnce: async <T>(key: string, value: T) =>
      records.has(key) ? (records.get(key) as T) : (records.set(key, value), value),
    list: async <T>(prefix: string) =>
      [...records].filter(([key]) => key.startsWith(prefix)).map(([key, value]) => ({ key, value: value as T })),
  };
  const inTime = (name: string, { policy, withinMs }: Given, work: () => Promise<object>) => {
    const { cancellationSignal } = Context.current();
    if (name === 'agentRun')
      return inItsTime(withinMs === undefined ? undefined : withinMs + TURN_ENDS_MS, cancellationSignal, work);
    if (name !== 'generate') return work();
    const ask = () =>
      policy && 'endpoint' in policy ? whilePatient(policy.endpoint, store, cancellationSignal, work) : work();
    return inItsTime(withinMs, cancellationSignal, ask);
  };
  const all = Object.entries(activities) as Array<[string, (...given: unknown[]) => Promise<object>]>;
  return Object.fromEntries(
    all.map(([name, activity]) => [
      name,
      async (...given) => {
        const one = { info: Context.current().info, clock: new OwnClock() };
        const input: Given = given[0] ?? {};
        const limits = { store, place, ...(input.policy && patienceOf(input.policy)) };
        return withFailureMapping(() => inTime(name, input, () => activity(...given))).catch(async (error: unknown) => {
          throw await reported(error, limits, one);
        });
      },
    ]),
  );
}

/**
 * The workflows' code with other waits: each key, a text in it, is replaced by its value. For tests that would otherwise
 * do nothing but wait for the real ones. A key that is nowhere in the code is an error.
 */
export type OtherWaits = Readonly<Record<string, string>>;

/** Workers are found to be silent after 5 s, and their work starts again after a second at most. */
export const SOONER: OtherWaits = {
  "heartbeatTimeout: '15s'": "heartbeatTimeout: '5s'",
  'longestMs: 10000': 'longestMs: 1000',
};

async function workflowCode(waits: OtherWaits): Promise<{ codePath: string } | { code: string }> {
  const codePath = await buildWorkflowBundle();
  if (Object.keys(waits).length === 0) return { codePath };
  let code = await readFile(codePath, 'utf8');
  for (const [usual, other] of Object.entries(waits)) {
    if (!code.includes(usual)) throw new Error(`The workflows have no ${JSON.stringify(usual)}`);
    code = code.replaceAll(usual, other);
  }
  return { code };
}

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
  waits: OtherWaits = {},
): Promise<World> {
  quietTemporal();
  const log: Log = { calls: [], held: new Set(), live: 0, peakLive: 0 };
  const scripted = scriptedActivities(script, log);
  const activities = { ...scripted, ...replaced(scripted) };
  const connection = await NativeConnection.connect({ address });
  const queues: Array<[string, object]> = [
    [QUEUES.init, limited('init', activities.init)],
    [QUEUES.gpu, limited('gpu', activities.gpu)],
    [QUEUES.endpoint, limited('gpu', activities.gpu)],
    [QUEUES.reward, limited('reward', activities.reward)],
    [hostQueue('test-host'), limited('agent-run', activities.agentRun)],
    [QUEUES.agentRun, limited('agent-run', activities.agentRun)],
  ];
  const pollers = { type: 'simple-maximum' as const, maximum: 2 };
  const workers = [
    await Worker.create({
      connection,
      taskQueue: QUEUES.orchestrator,
      workflowBundle: await workflowCode(waits),
      activities: { ...activities.orchestrator, ...activities.sweeps },
      workflowTaskPollerBehavior: pollers,
    }),
    ...(await Promise.all(
      // Where there are none, processes of the test's own serve that queue.
      queues
        .filter(([, own]) => Object.keys(own).length > 0)
        .map(([taskQueue, own]) =>
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
