/**
 * A world whose activities play a script, and the histories of what ran in it as files: named ones alone where the
 * command line names some.
 */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startPrivateServer } from '../../stack/temporal-server/private-server.ts';
import type { Script } from './scripted-activities.ts';
import { saveHistory } from './save-history.ts';
import { startWorld } from './workflow-world.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-histories-'));
let script: Script = {};
const named = process.argv.slice(2);
/** So that a rollout of some twenty turns goes on in a second history. */
const suggesting = (events: number) =>
  startPrivateServer(mkdtempSync(join(dir, 'server-')), [
    `--dynamic-config-value=limit.historyCount.suggestContinueAsNew=${events}`,
  ]);
const answers: Script = {
  turn: (input) => (script.turn ?? ((i) => (i.turn < 3 ? 'act' : 'finish')))(input),
  before: (activity, input) => script.before?.(activity, input),
  worker: (input) => script.worker?.(input),
  ttlSeconds: () => script.ttlSeconds?.() ?? 1800,
  card: () => script.card?.() ?? {},
  ran: (activity, turn) => script.ran?.(activity, turn),
};
let server = await suggesting(240);
export let world = await startWorld(server.address, answers);

/** What the activities do from now on. */
export function play(given: Script): void {
  script = given;
}

/** Another server, which suggests a second history after so many events. */
export async function restart(events: number): Promise<void> {
  await world.stop();
  await server.stop();
  server = await suggesting(events);
  world = await startWorld(server.address, answers);
}

export async function stop(): Promise<void> {
  await world.stop();
  await server.stop();
  rmSync(dir, { recursive: true, force: true });
}

export const policy = { uri: 'file:///p', version: 1 };
export const start = (workflow: string, workflowId: string, ...args: unknown[]) =>
  world.client.workflow.start(workflow, { taskQueue: 'orchestrator', workflowId, args });
export const rollout = (id: string) => start('rollout', id, { task: 't-train-0', policy });

export async function save(name: string, workflowId: string, runId = ''): Promise<void> {
  if (named.length > 0 && !named.includes(name)) return;
  await world.client.workflow.getHandle(workflowId, runId || undefined).describe();
  saveHistory(server.address, name, workflowId, runId);
}

export async function record(
  name: string,
  given: Script,
  during: (handle: Awaited<ReturnType<typeof rollout>>) => Promise<void> = async () => undefined,
) {
  play(given);
  const handle = await rollout(name);
  await during(handle);
  await handle.result().catch(() => undefined);
  await save(name, name);
}

/** Until a rollout whose id ends so is in `activity`. */
export async function until(activity: string, rollout: string): Promise<void> {
  while (!world.log.calls.some((call) => call.activity === activity && call.rollout.endsWith(rollout))) await sleep(50);
}
