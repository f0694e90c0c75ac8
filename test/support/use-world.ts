/** A server and a world for one test file: `script` is what the scripted activities do at the moment. */

import type { WorkflowHandleWithFirstExecutionRunId } from '@temporalio/client';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { type PrivateServer, startPrivateServer } from '../../stack/temporal-server/private-server.ts';
import type { Script } from './scripted-activities.ts';
import { startWorld, type World } from './workflow-world.ts';

export interface WorldInUse {
  readonly now: World;
  script: Script;
  /** Where new sandboxes are. */
  host: string;
  start(workflow: string, id: string, ...args: unknown[]): Promise<WorkflowHandleWithFirstExecutionRunId>;
  count(activity: string): number;
  /** What a workflow says of itself, as Temporal's UI shows it. */
  details(id: string): Promise<string>;
}

export function useWorkflowWorld(serverSettings: readonly string[] = []): WorldInUse {
  const dir = mkdtempSync(join(tmpdir(), 'longhaul-world-'));
  let server: PrivateServer;
  let world: World;
  const inUse: WorldInUse = {
    get now() {
      return world;
    },
    script: {},
    host: 'test-host',
    start: (workflow, workflowId, ...args) =>
      world.client.workflow.start(workflow, { taskQueue: 'orchestrator', workflowId, args }),
    count: (activity) => world.log.calls.filter((call) => call.activity === activity).length,
    details: async (id) =>
      (await world.client.workflow.getHandle(id).query<{ currentDetails: string }>('__temporal_workflow_metadata'))
        .currentDetails,
  };
  beforeAll(async () => {
    server = await startPrivateServer(dir, serverSettings);
    world = await startWorld(server.address, {
      turn: (input) => (inUse.script.turn ?? ((i) => (i.turn < 2 ? 'act' : 'finish')))(input),
      before: (activity, input) => inUse.script.before?.(activity, input),
      reward: (rollout) => inUse.script.reward?.(rollout) ?? 1,
      update: (input) => inUse.script.update?.(input),
      batch: (input) => inUse.script.batch?.(input),
      worker: (input) => inUse.script.worker?.(input),
      ran: (activity, turn) => inUse.script.ran?.(activity, turn),
      rounds: () => inUse.script.rounds?.() ?? [2, 2],
      changes: () => inUse.script.changes?.() ?? [],
      recorded: () => inUse.script.recorded?.(),
      ttlSeconds: () => inUse.script.ttlSeconds?.() ?? 1800,
      card: () => inUse.script.card?.() ?? {},
      host: () => inUse.host,
    });
  });
  afterAll(async () => {
    await world?.stop();
    await server?.stop();
    rmSync(dir, { recursive: true, force: true });
  });
  beforeEach(() => {
    inUse.script = {};
    inUse.host = 'test-host';
    world.log.calls.length = 0;
    world.log.peakLive = 0;
  });
  return inUse;
}
