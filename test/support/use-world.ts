/** A server and a world for one test file: `script` is what the scripted activities do at the moment. */

import { Context } from '@temporalio/activity';
import type { WorkflowHandleWithFirstExecutionRunId } from '@temporalio/client';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { type PrivateServer, startPrivateServer } from '../../stack/temporal-server/private-server.ts';
import type { Script } from './scripted-activities.ts';
import { type OtherWaits, startWorld, type World } from './workflow-world.ts';

/** What the workflows of one test do, and what they have called, whatever others do at the same time. */
export interface Part {
  readonly calls: string[];
  count(activity: string): number;
  /** Its sandboxes. */
  live(): number;
}

export interface WorldInUse {
  readonly now: World;
  script: Script;
  /** Where new sandboxes are. */
  host: string;
  start(workflow: string, id: string, ...args: unknown[]): Promise<WorkflowHandleWithFirstExecutionRunId>;
  count(activity: string): number;
  /** A script of their own for the workflow `id` and those below it: for tests that run beside each other. */
  part(id: string, script: Script): Part;
  /** What a workflow says of itself, as Temporal's UI shows it. */
  details(id: string): Promise<string>;
}

export function useWorkflowWorld(serverSettings: readonly string[] = [], waits: OtherWaits = {}): WorldInUse {
  const dir = mkdtempSync(join(tmpdir(), 'longhaul-world-'));
  let server: PrivateServer;
  let world: World;
  const parts = new Map<string, { readonly script: Script; readonly calls: string[] }>();
  /** That of the workflow for which an activity runs at the moment. */
  const part = () => {
    const id = Context.current().info.workflowExecution?.workflowId ?? '';
    return [...parts].find(([own]) => id === own || id.startsWith(`${own}/`))?.[1];
  };
  const script = (): Script => part()?.script ?? inUse.script;
  const inUse: WorldInUse = {
    get now() {
      return world;
    },
    script: {},
    host: 'test-host',
    start: (workflow, workflowId, ...args) =>
      world.client.workflow.start(workflow, { taskQueue: 'orchestrator', workflowId, args }),
    count: (activity) => world.log.calls.filter((call) => call.activity === activity).length,
    part: (id, own) => {
      const calls: string[] = [];
      parts.set(id, { script: own, calls });
      return {
        calls,
        count: (activity) => calls.filter((call) => call === activity).length,
        live: () =>
          [...world.log.held].filter((sandbox) => sandbox.startsWith(`${id}#`) || sandbox.startsWith(`${id}/`)).length,
      };
    },
    details: async (id) =>
      (await world.client.workflow.getHandle(id).query<{ currentDetails: string }>('__temporal_workflow_metadata'))
        .currentDetails,
  };
  beforeAll(async () => {
    server = await startPrivateServer(dir, serverSettings);
    const scripted: Script = {
      turn: (input) => (script().turn ?? ((i) => (i.turn < 2 ? 'act' : 'finish')))(input),
      before: (activity, input) => {
        part()?.calls.push(activity);
        return script().before?.(activity, input);
      },
      reward: (rollout) => script().reward?.(rollout) ?? 1,
      update: (input) => script().update?.(input),
      batch: (input) => script().batch?.(input),
      worker: (input) => script().worker?.(input),
      ran: (activity, turn) => script().ran?.(activity, turn),
      rounds: () => script().rounds?.() ?? [2, 2],
      changes: () => script().changes?.() ?? [],
      recorded: () => script().recorded?.(),
      ttlSeconds: () => script().ttlSeconds?.() ?? 1800,
      card: () => script().card?.() ?? {},
      host: () => inUse.host,
    };
    world = await startWorld(server.address, scripted, undefined, waits);
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
