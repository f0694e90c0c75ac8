/**
 * Records the golden histories anew: `node test/support/record-histories.ts`. Only after a change of workflow code that
 * is meant to be incompatible; everything else must replay the histories that are there.
 */

import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { serverProgram } from '../../workers/stack/stack-plan.ts';
import { startPrivateServer } from '../../workers/temporal-server/private-server.ts';
import { type Script, sandboxLost } from './scripted-activities.ts';
import { startWorld } from './workflow-world.ts';

const out = fileURLToPath(new URL('../histories', import.meta.url));
const dir = mkdtempSync(join(tmpdir(), 'longhaul-histories-'));
let script: Script = {};
const server = await startPrivateServer(dir);
const world = await startWorld(server.address, {
  turn: (input) => (script.turn ?? ((i) => (i.turn < 3 ? 'calls' : 'finish')))(input),
  before: (activity, input) => script.before?.(activity, input),
});
mkdirSync(out, { recursive: true });

const policy = { dir: '/p', version: 1 };
const start = (workflow: string, workflowId: string, ...args: unknown[]) =>
  world.client.workflow.start(workflow, { taskQueue: 'orchestrator', workflowId, args });
const rollout = (id: string) => start('rollout', id, { task: 't-train-0', policy });

/** Names of this machine and its paths are nobody's business, and replay does not read them. */
function withoutMachine(key: string, value: unknown): unknown {
  if (key === 'identity' || key === 'stickyAttributes') return undefined;
  if (key === 'name' && typeof value === 'string' && /^\d+@/.test(value)) return 'sticky';
  return key === 'stackTrace' ? '' : value;
}

async function save(name: string, workflowId: string): Promise<void> {
  await world.client.workflow.getHandle(workflowId).describe();
  const shown = ['workflow', 'show', '--workflow-id', workflowId, '--address', server.address, '--output', 'json'];
  const text = execFileSync(serverProgram(process.env), shown, { encoding: 'utf8', maxBuffer: 1 << 26 });
  const history: unknown = JSON.parse(text, withoutMachine);
  writeFileSync(join(out, `${name}.json`), `${JSON.stringify({ workflowId, history })}\n`);
}

async function record(name: string, given: Script, during: (handle: Awaited<ReturnType<typeof rollout>>) => Promise<void> = async () => undefined) {
  script = given;
  const handle = await rollout(name);
  await during(handle);
  await handle.result().catch(() => undefined);
  await save(name, name);
}

let lost = false;
let failures = 0;
await record('rollout-happy', {});
await record('rollout-hints-to-the-last-turn', { turn: () => 'hint' });
await record('rollout-sandbox-lost', { before: (a) => { if (a === 'agentRun' && !lost) { lost = true; throw sandboxLost(); } } });
await record('rollout-activity-retried', { before: (a) => { if (a === 'generate' && failures++ < 2) throw new Error('engine busy'); } });
await record('rollout-failed', { before: (a) => { if (a === 'agentRun') throw sandboxLost(); } });
await record('rollout-cancelled', { before: async (a) => { if (a === 'agentRun') await sleep(500); } }, async (handle) => {
  await sleep(300);
  await handle.cancel();
});
await record('rollout-paused', {}, async (handle) => {
  await handle.signal('pause');
  await sleep(500);
  await handle.signal('resume');
});
script = {};
const config = {
  run: 'golden', policy: { base: '/p' }, task: { name: 't', train: 4 }, steps: 2, batch: { tasks: 2, samples: 2 },
  evaluation: { tasks: 2 }, dispatcher: { liveSandboxes: 3, agentRun: 2 },
};
const training = await start('train', 'train/golden', config);
await training.executeUpdate('configure', { args: [{ learningRate: 0.001 }] });
await training.result();
await save('train', 'train/golden');
await save('batch-gated', 'train/golden/step-1');
const gated = world.log.calls.find((call) => call.rollout.startsWith('train/golden/step-1/'));
await save('rollout-gated', gated?.rollout ?? '');
const agent = { maxTurns: 5, maxContextTokens: 1000, toolTimeoutSeconds: 10 };
const sweep = await start('evalSweep', 'eval/golden', { agent, dispatcher: { type: 'pipeline', liveSandboxes: 3 } });
await sweep.result();
await save('eval-sweep', 'eval/golden');
await world.stop();
await server.stop();
rmSync(dir, { recursive: true, force: true });
