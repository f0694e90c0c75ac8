/** A server, a store and a world for one test file, in which activities of one's own, over the store, replace scripted ones. */

import type { WorkflowHandleWithFirstExecutionRunId } from '@temporalio/client';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import type { Store } from '../../store/store.ts';
import { type PrivateServer, startPrivateServer } from '../../stack/temporal-server/private-server.ts';
import type { ScriptedActivities } from './scripted-activities.ts';
import { type OtherWaits, startWorld, type World } from './workflow-world.ts';

export interface StoreWorld {
  readonly dir: string;
  readonly store: Store;
  readonly server: PrivateServer;
  readonly now: World;
  /** Other workers, after those of `now` were stopped. */
  open(): Promise<void>;
  start(workflow: string, id: string, ...args: unknown[]): Promise<WorkflowHandleWithFirstExecutionRunId>;
}

export function useStoreWorld(
  replaced: (store: Store, scripted: ScriptedActivities) => Partial<ScriptedActivities>,
  serverSettings: readonly string[] = [],
  waits: OtherWaits = {},
): StoreWorld {
  const dir = mkdtempSync(join(tmpdir(), 'longhaul-store-world-'));
  const store = openSqliteStore(join(dir, 'store'));
  let server: PrivateServer;
  let world: World;
  const inUse: StoreWorld = {
    dir,
    store,
    get server() {
      return server;
    },
    get now() {
      return world;
    },
    async open() {
      world = await startWorld(server.address, {}, (scripted) => replaced(store, scripted), waits);
    },
    start: (workflow, workflowId, ...args) =>
      world.client.workflow.start(workflow, { taskQueue: 'orchestrator', workflowId, args }),
  };
  beforeAll(async () => {
    server = await startPrivateServer(dir, serverSettings);
    await inUse.open();
  });
  afterAll(async () => {
    await world?.stop();
    await server?.stop();
    await store.close();
    rmSync(dir, { recursive: true, force: true });
  });
  return inUse;
}
