/** The orchestrator process: runs workflows, and the bookkeeping activities of runs. */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Worker, type WorkerOptions } from '@temporalio/worker';
import { createSweepActivities } from '../../activities/orchestrator/sweep/sweep-activities.ts';
import { createOrchestratorActivities } from '../../activities/orchestrator/orchestrator.ts';
import { describePolicy } from '../../trainer/model/describe-policy.ts';
import { QUEUES } from '../../protocol/queues.ts';
import type { TrainingPlacement } from '../../protocol/run-config.ts';
import { refusedPlacement } from '../gpu-pool.ts';
import { temporalLogger } from '../logs/temporal-log.ts';
import { guardModules } from '../allowed/module-places.ts';
import { toolsGuard } from '../allowed/places.ts';
import { followStore } from '../follow-store.ts';
import { commonOptions, runWorkers, type RoleContext } from '../run-worker.ts';
import { openWorkerStore, workerTasks } from '../worker-store.ts';
import type { WorkerSettings } from '../settings.ts';
import type { Store } from '../../store/store.ts';
import { deploymentOptions, isVersioned, promote, unfinishedBuilds } from '../versioning/deployment.ts';
import { EarlierBuilds } from '../versioning/earlier-builds.ts';
import { startWatchdog } from '../watchdog/watchdog.ts';
import { buildIdOf, buildWorkflowBundle } from '../workflow-bundle.ts';

/** The number of workflows that are kept in memory; others are replayed when they continue. */
const CACHED_WORKFLOWS = 400;

/** The UI's address as the stack recorded it; empty for a cluster that is not the stack's own. */
async function uiOf(settings: WorkerSettings): Promise<string> {
  try {
    const stack = JSON.parse(await readFile(join(settings.home, 'stack.json'), 'utf8')) as { ui?: unknown };
    return typeof stack.ui === 'string' ? stack.ui : '';
  } catch {
    return '';
  }
}

/** Runs this build beside earlier ones that have open rollouts; new work starts on this build. */
async function runVersioned(
  context: RoleContext,
  options: WorkerOptions,
  bundle: string,
  store: Store,
  close: () => Promise<void>,
): Promise<void> {
  const { connection, namespace } = context.temporal;
  const say = (line: string) => context.log.info(line);
  const create = (build: string, codePath: string) =>
    Worker.create({ ...options, workflowBundle: { codePath }, workerDeploymentOptions: deploymentOptions(build) });
  const build = buildIdOf(bundle);
  const worker = await create(build, bundle);
  const earlier = new EarlierBuilds({ unfinished: () => unfinishedBuilds(connection, namespace), create, say });
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => earlier.stop());
  const served = promote(connection, namespace, build).then(
    () => earlier.watch(),
    (error: unknown) => {
      say(`Build ${build} cannot be made current (${String(error)}): no new work starts on it`);
      worker.shutdown();
    },
  );
  const end = async () => {
    earlier.stop();
    await served;
    await close();
  };
  await runWorkers('orchestrator', context, [worker], store, end, build);
}

/** If the pool is known, a run that it cannot train is refused before its first rollout. */
function placing({ gpu: { pool } }: WorkerSettings) {
  return pool === undefined
    ? {}
    : { refusedPlacement: (placement: TrainingPlacement) => refusedPlacement(placement, pool) };
}

export async function runOrchestrator(context: RoleContext): Promise<void> {
  const { settings, temporal, log } = context;
  const store = await openWorkerStore(context);
  const tasks = workerTasks(store);
  const moduleGuard = guardModules(settings.home);
  const guardTools = toolsGuard();
  const { address, namespace } = temporal;
  const ui = process.env['LONGHAUL_TEMPORAL_UI'] ?? (await uiOf(settings));
  const bundle = await buildWorkflowBundle(isVersioned() ? 'versioned' : 'index', temporalLogger(log));
  const options: WorkerOptions = {
    ...commonOptions(temporal, settings.slots.orchestrator),
    taskQueue: QUEUES.orchestrator,
    maxCachedWorkflows: CACHED_WORKFLOWS,
    activities: {
      ...createOrchestratorActivities({
        store,
        tasks,
        temporal: { address, namespace, ui },
        describePolicy,
        moduleGuard,
        guardTools,
        ...placing(settings),
      }),
      ...createSweepActivities({ store, tasks, moduleGuard, guardTools }),
    },
  };
  const watchdog = startWatchdog(temporal, (line, runId) => log.warn({ runId }, line));
  const endFollowing = followStore(store, settings.home, (line) => log.warn(line));
  const close = async () => {
    await watchdog.stop();
    await endFollowing();
    await store.close();
  };
  if (isVersioned()) return runVersioned(context, options, bundle, store, close);
  const worker = await Worker.create({ ...options, workflowBundle: { codePath: bundle } });
  await runWorkers('orchestrator', context, [worker], store, close, buildIdOf(bundle));
}
