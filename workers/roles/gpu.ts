/** The process of a GPU worker: one engine per device; samples and trains. No workflow runs here. */

import { Worker } from '@temporalio/worker';
import { withFailureMapping } from '../../activities/failure-mapping.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { createGpuActivities } from '../../activities/gpu.ts';
import { kindsOfRuns, type OpenEngineDeps } from '../../activities/generate/open-engine.ts';
import { contextOf } from '../../config/policy-context.ts';
import { gpuDevices } from '../gpu-devices.ts';
import { createShardActivities } from '../../activities/update/sharded-update.ts';
import { WorkerBackends } from '../../activities/backends/defined-backend.ts';
import { embeddedBackend } from '../../activities/backends/embedded-backend.ts';
import type { GenerateDeps } from '../../activities/generate/generate.ts';
import type { PolicyTokenizer } from '../../activities/generate/sample-ids.ts';
import { createEmbeddedEngine } from '../../trainer/embedded/embedded-engine.ts';
import { EndpointClient } from '../../endpoints/endpoint-client.ts';
import { fingerprintOf, MadeOfFiles } from '../../trainer/checkpoints/policy-files.ts';
import { loadTokenizer } from '../../trainer/tokenizer/load-tokenizer.ts';
import type { GpuActivities } from '../../protocol/activities.ts';
import type { EngineKinds, EnginePart } from '../../protocol/engine.ts';
import type { Store } from '../../store/store.ts';
import { kindQueue, QUEUES, workerQueue } from '../../protocol/queues.ts';
import { commonOptions, runWorkers, type RoleContext } from '../run-worker.ts';
import { openWorkerStore, workerTasks } from '../worker-store.ts';
import { endingWhenLost, endProcess } from './ending-when-lost.ts';
import { reportSampling } from './report-sampling.ts';
import { tinkerLanes } from './tinker-lanes.ts';
import type { WorkerSettings } from '../settings.ts';

/** A worker that only samples received an update: only another setting of the run fixes that. */
const refused = (): Promise<never> =>
  withFailureMapping(() =>
    Promise.reject(
      new UserInputError(
        'training.placement',
        'colocated',
        'this pool has workers that only sample: give disaggregated',
      ),
    ),
  );

/** True if this worker and others of the pool sample: then it needs its own queue, for rollouts in its cache. */
const isOneOfMany = ({ does, pool = [does] }: WorkerSettings['gpu']): boolean =>
  does !== 'train' && pool.filter((other) => other !== 'train').length > 1;

type Activities = Readonly<Record<string, (...given: never[]) => Promise<unknown>>>;

const SAMPLING: ReadonlySet<string> = new Set<keyof GpuActivities>(['openEngine', 'checkEndpoint', 'generate']);

/** Ids of the kinds of engine whose work this worker takes. */
export type ServedKinds = Readonly<Record<EnginePart, readonly string[]>>;

/** Its own kinds; with `mixed`, also those with which runs of the store began. */
async function servedBy(kinds: EngineKinds, mixed: boolean, store: Store): Promise<ServedKinds> {
  const others = mixed ? await kindsOfRuns(store) : { sampling: [], training: [] };
  const ofPart = (part: EnginePart) => [...new Set([kinds[part].id, ...others[part]])];
  return { sampling: ofPart('sampling'), training: ofPart('training') };
}

/**
 * The queues of a worker and their activities; each queue has its own slots. Workers that sample serve `gpu` and
 * `endpoint`, and a queue of their own if several sample. Workers that train serve `gpu-train` if the pool has several.
 * What belongs to a run is on the queues of the kinds of engine that it began with.
 */
export function queuesOf(
  gpu: WorkerSettings['gpu'],
  name: string,
  all: Activities,
  served: ServedKinds = { sampling: [], training: [] },
): Array<readonly [queue: string, activities: Activities]> {
  const { does, pool = [does] } = gpu;
  const those = (ofSampling: boolean): Activities =>
    Object.fromEntries(Object.entries(all).filter(([activity]) => SAMPLING.has(activity) === ofSampling));
  const [sampling, training] = [those(true), those(false)];
  const none = Object.fromEntries(Object.keys(training).map((activity) => [activity, refused]));
  const [samples, trains] = [does !== 'train', does !== 'generate'];
  const isApart = trains && (pool.length > 1 || !samples);
  const opens = Object.fromEntries(Object.entries(all).filter(([activity]) => activity === 'openEngine'));
  const ofKinds = (queue: string, kinds: readonly string[], activities: Activities) =>
    kinds.map((kind) => [kindQueue(queue, kind), activities] as const);
  return [
    ...(samples ? [[QUEUES.gpu, { ...sampling, ...(does === 'both' ? training : none) }] as const] : []),
    ...(samples ? [[QUEUES.endpoint, sampling] as const] : []),
    ...(isOneOfMany(gpu) ? [[workerQueue(name), sampling] as const] : []),
    ...(isApart ? [[QUEUES.gpuTrain, { ...training, ...opens }] as const] : []),
    ...(samples ? ofKinds(QUEUES.gpu, served.sampling, sampling) : []),
    ...(does === 'both' ? ofKinds(QUEUES.gpu, served.training, training) : []),
    ...(isApart ? ofKinds(QUEUES.gpuTrain, served.training, training) : []),
  ];
}

export async function runGpu(context: RoleContext): Promise<void> {
  const { settings, temporal, log } = context;
  const store = await openWorkerStore(context);
  const started = await createEmbeddedEngine({ onOutput: (line) => log.warn(line) });
  const kinds = await started.describe();
  for (const [part, { id, depends }] of Object.entries(kinds))
    log.info(`${part} by an engine of the kind ${id}: ${JSON.stringify(depends)}`);
  const endReport = reportSampling(started, (line) => log.info(line));
  const engine = endingWhenLost(started);
  // Every version of a run's policy has a copy of the same tokenizer.
  const tokenizers = new MadeOfFiles<PolicyTokenizer>(loadTokenizer, 8);
  const digests = new MadeOfFiles(fingerprintOf, 64);
  const name = `${settings.host}/${process.env['LONGHAUL_WORKER_NAME'] ?? process.pid}`;
  const isGpu = gpuDevices(process.env).length > 0;
  const contextHere = (dir: string) => contextOf(dir, process.env, isGpu);
  const tokenizerOf = (dir: string) => tokenizers.of(dir);
  const parts = { engine, tokenizerOf, digestOf: (dir: string) => digests.of(dir), contextOf: contextHere };
  const backends = new WorkerBackends(embeddedBackend(parts), store, tokenizerOf);
  const deps: GenerateDeps & OpenEngineDeps = {
    store,
    tasks: workerTasks(store),
    backends,
    tokenizerOf,
    endpoints: new EndpointClient(),
    contextOf: contextHere,
    kinds,
    mixed: settings.mixedEngines,
  };
  const sampling = isOneOfMany(settings.gpu) ? { ...deps, worker: name } : deps;
  const activities = { ...createGpuActivities(sampling), ...createShardActivities({ store, engine }) };
  const served = await servedBy(kinds, settings.mixedEngines, store);
  const lanes = tinkerLanes({
    engine: started,
    sampling: engine,
    digestOf: parts.digestOf,
    kinds,
    store: settings.store,
    owner: name,
    say: (line) => log.warn(line),
    whenLost: endProcess,
  });
  // A lane of a model trains, and its checkpoints are sampled from: on workers that do both.
  const ofTinker = settings.gpu.does === 'both' ? lanes.queues : [];
  const workers = [...queuesOf(settings.gpu, name, activities, served), ...ofTinker].map(([taskQueue, own]) =>
    Worker.create({ ...commonOptions(temporal, settings.slots.gpu), taskQueue, activities: { ...own } }),
  );
  await runWorkers('gpu', context, await Promise.all(workers), store, async () => {
    endReport();
    await lanes.close();
    await engine.close();
    await store.close();
  });
}
