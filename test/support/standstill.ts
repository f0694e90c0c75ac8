/** Tells a world that stands still from one that a busy machine holds up: nothing is called, and nothing is on its way. */

import { setTimeout as sleep } from 'node:timers/promises';
import { pendingOf } from '../../workers/watchdog/find-stalls.ts';
import type { WorldInUse } from './use-world.ts';

/** What any open workflow waits for of a worker; a sandbox that is being held is no progress. */
async function pending({ now: { client } }: WorldInUse): Promise<string[]> {
  const found: string[] = [];
  for await (const { workflowId } of client.workflow.list({ query: 'ExecutionStatus = "Running"' })) {
    const described = await client.workflow.getHandle(workflowId).describe();
    found.push(...pendingOf(described).flatMap(({ activity }) => (activity === 'holdSandbox' ? [] : [activity])));
  }
  return found;
}

/** Waits for it; returns how many activities have been called by then. */
export async function standstill(world: WorldInUse, quietMs = 1500): Promise<number> {
  const calls = () => world.now.log.calls.length;
  for (;;) {
    const before = calls();
    await sleep(quietMs);
    if (calls() === before && (await pending(world)).length === 0 && calls() === before) return before;
  }
}
