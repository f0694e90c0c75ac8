/**
 * `bench batch`: the cost of a large batch compared with a small one. The orchestrator is the stack's, in its own
 * process; model and sandbox are empty. Each batch has a fresh server, store and orchestrator.
 */

import { Client, Connection } from '@temporalio/client';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openStore, sqliteUrl } from '../store/open-store.ts';
import { defineEnvironment } from '../tasks/registry.ts';
import { stackPlan } from '../stack/stack-plan.ts';
import { readyFile } from '../workers/run-worker.ts';
import { buildWorkflowBundle } from '../workers/workflow-bundle.ts';
import { QUEUES } from '../protocol/queues.ts';
import type { BatchInput, BatchResult, DispatcherSettings } from '../protocol/batch.ts';
import { emptyEnvironment } from './empty-parts.ts';
import { emptyActivities } from './orchestration.ts';
import { startOwnWorkers, withOwnTemporal } from './own-temporal.ts';

export interface BatchBenchOptions {
  /** Rollouts of each batch, the smallest first. */
  readonly sizes: readonly number[];
  readonly turns: number;
  readonly type: DispatcherSettings['type'];
  readonly width: number;
  readonly note: (line: string) => void;
}

const SAMPLES = 4;
const ID = 'bench/batch';
const WORKER = 'orchestrator';
const READY_WITHIN_MS = 120_000;

/** Starts the orchestrator as the stack does. Errors: an `Error` with the end of its log. */
export async function startOrchestrator(address: string, home: string): Promise<ChildProcess> {
  const temporal = { TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: 'default' };
  const [command] = stackPlan({ ...process.env, ...temporal, LONGHAUL_ROLES: 'orchestrator' }).workers(temporal);
  if (!command) throw new TypeError('The stack has no orchestrator');
  mkdirSync(home, { recursive: true });
  const log = join(home, 'orchestrator.log');
  const descriptor = openSync(log, 'a');
  // With a name, the ready file has a place that is known before the process has started.
  const own = { LONGHAUL_HOME: home, LONGHAUL_STORE: '', LONGHAUL_WORKER_NAME: WORKER };
  const env = { ...process.env, ...command.env, ...own };
  const child = spawn(command.command, command.args, { env, stdio: ['ignore', descriptor, descriptor] });
  closeSync(descriptor);
  for (const deadline = Date.now() + READY_WITHIN_MS; !existsSync(readyFile(home, WORKER)); await sleep(100)) {
    if (child.exitCode === null && Date.now() <= deadline) continue;
    child.kill('SIGKILL');
    throw new Error(`The orchestrator is not ready: ${readFileSync(log, 'utf8').slice(-2000)}`);
  }
  return child;
}

/** The process's peak of resident memory so far, in MiB. */
function peakMiB(pid: number): number {
  const [, kib] = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Math.round(Number(kib) / 1024);
}

export function inputOf(
  rollouts: number,
  { type, width }: Pick<BatchBenchOptions, 'type' | 'width'>,
  turns: number,
): BatchInput {
  return {
    run: 'bench',
    name: 'batch',
    step: 1,
    tasks: Array.from({ length: Math.ceil(rollouts / SAMPLES) }, (_, i) => `empty-train-${i}`),
    samples: SAMPLES,
    policy: { uri: 'file:///empty', version: 0 },
    agent: { maxTurns: turns, maxContextTokens: 100_000, toolTimeoutSeconds: 60 },
    sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 4096 },
    seed: 0,
    dispatcher: type === 'batch' ? { type } : { type, maxParallelAgents: width },
  };
}

/** The number of the batch's histories, events and bytes of the largest, and the largest payload. */
async function measureHistories(client: Client) {
  const histories: Array<{ events: number; bytes: number }> = [];
  let largestPayloadBytes = 0;
  const list = client.workflow.list({ query: `WorkflowId = '${ID}' OR WorkflowId = '${ID}/empty-train-0/0'` });
  for await (const { workflowId, runId, raw } of list) {
    largestPayloadBytes = Math.max(
      largestPayloadBytes,
      largestPayload(await client.workflow.getHandle(workflowId, runId).fetchHistory()),
    );
    if (workflowId === ID)
      histories.push({ events: Number(raw.historyLength ?? 0), bytes: Number(raw.historySizeBytes ?? 0) });
  }
  const largestHistory = histories.reduce((most, one) => (one.events > most.events ? one : most), {
    events: 0,
    bytes: 0,
  });
  return { histories: histories.length, largestHistory, largestPayloadBytes };
}

async function measureOne(rollouts: number, options: BatchBenchOptions) {
  return withOwnTemporal(async ({ address, dir }) => {
    const store = await openStore(sqliteUrl(join(dir, 'home', 'store')));
    const stop = await startOwnWorkers({
      address,
      from: import.meta,
      activities: emptyActivities(store, options.turns),
      slots: 100,
      cachedWorkflows: 0,
    });
    const orchestrator = await startOrchestrator(address, join(dir, 'home'));
    const connection = await Connection.connect({ address });
    try {
      const client = new Client({ connection });
      const begun = performance.now();
      const result: BatchResult = await client.workflow.execute('batch', {
        taskQueue: QUEUES.orchestrator,
        workflowId: ID,
        args: [inputOf(rollouts, options, options.turns)],
      });
      const seconds = (performance.now() - begun) / 1000;
      if (result.graded !== result.rollouts)
        throw new Error(
          `${result.rollouts - result.graded} of ${result.rollouts} rollouts were not graded: ` +
            `${JSON.stringify(result.failures)}`,
        );
      const resultBytes = JSON.stringify(result).length;
      // Histories appear in the list a little after their end.
      await sleep(2000);
      return {
        rollouts: result.rollouts,
        seconds,
        orchestrator: { peakMiB: peakMiB(orchestrator.pid ?? 0) },
        ...(await measureHistories(client)),
        resultBytes,
      };
    } finally {
      await connection.close();
      orchestrator.kill('SIGTERM');
      if (orchestrator.exitCode === null) await once(orchestrator, 'exit');
      await stop();
      await store.close();
    }
  });
}

export async function benchBatch(options: BatchBenchOptions) {
  defineEnvironment(emptyEnvironment);
  // Built here, because building the bundle takes more memory than running it.
  await buildWorkflowBundle();
  const batches: Array<Awaited<ReturnType<typeof measureOne>>> = [];
  for (const rollouts of options.sizes) {
    const measured = await measureOne(rollouts, options);
    options.note(`${rollouts} rollouts: ${measured.seconds.toFixed(0)} s`);
    batches.push(measured);
  }
  const memoryRatio = (batches.at(-1)?.orchestrator.peakMiB ?? 0) / (batches[0]?.orchestrator.peakMiB ?? 1);
  return { type: options.type, turns: options.turns, batches, memoryRatio };
}

/** The sizes of all payloads in a history, as the server stores them. */
function payloadBytes(value: unknown): number[] {
  if (value instanceof Uint8Array) return [value.length];
  if (typeof value !== 'object' || value === null) return [];
  return Object.values(value).flatMap(payloadBytes);
}

/** Bytes of the largest payload in any event; 0 if there is none. */
export function largestPayload({ events }: { readonly events?: unknown }): number {
  return Math.max(0, ...payloadBytes(events));
}
