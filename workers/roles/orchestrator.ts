/** The orchestrator process: runs workflows, and the bookkeeping activities of runs. */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Worker } from '@temporalio/worker';
import { createSweepActivities } from '../../activities/evaluation/sweep-activities.ts';
import { createOrchestratorActivities } from '../../activities/orchestrator.ts';
import { describePolicy } from '../../trainer/model/describe-policy.ts';
import { QUEUES } from '../../workflows/queues.ts';
import { commonOptions, runWorkers } from '../run-worker.ts';
import { openWorkerStore } from '../worker-store.ts';
import type { WorkerSettings } from '../settings.ts';
import type { WorkerConnection } from '../temporal-connection.ts';
import { buildWorkflowBundle } from '../workflow-bundle.ts';

/** The UI's address as the stack recorded it; of a cluster that is not ours nothing is known. */
async function uiOf(settings: WorkerSettings): Promise<string> {
  try {
    const stack = JSON.parse(await readFile(join(settings.home, 'stack.json'), 'utf8')) as { ui?: unknown };
    return typeof stack.ui === 'string' ? stack.ui : '';
  } catch {
    return '';
  }
}

export async function runOrchestrator(settings: WorkerSettings, temporal: WorkerConnection): Promise<void> {
  const store = openWorkerStore(settings);
  const { address, namespace } = temporal;
  const worker = await Worker.create({
    ...commonOptions(temporal, settings.slots.orchestrator),
    taskQueue: QUEUES.orchestrator,
    workflowBundle: { codePath: await buildWorkflowBundle() },
    maxCachedWorkflows: 600,
    activities: {
      ...createOrchestratorActivities({
        store,
        temporal: { address, namespace, ui: process.env['LONGHAUL_TEMPORAL_UI'] ?? (await uiOf(settings)) },
        describePolicy,
      }),
      ...createSweepActivities({ store }),
    },
  });
  await runWorkers('orchestrator', settings, [worker], () => store.close());
}
