/** The GPU process: one engine per device; samples and trains. No workflow runs here. */

import { Worker } from '@temporalio/worker';
import { createGpuActivities } from '../../activities/gpu.ts';
import type { PolicyTokenizer } from '../../activities/generate.ts';
import { createEmbeddedEngine, EngineLost } from '../../trainer/embedded-engine.ts';
import { EndpointClient } from '../../trainer/backends/endpoint-client.ts';
import type { Engine } from '../../trainer/engine.ts';
import { loadTokenizer } from '../../trainer/tokenizer/load-tokenizer.ts';
import { QUEUES } from '../../workflows/queues.ts';
import { commonOptions, runWorkers } from '../run-worker.ts';
import { openWorkerStore } from '../worker-store.ts';
import type { WorkerSettings } from '../settings.ts';
import type { WorkerConnection } from '../temporal-connection.ts';

/** Tokenizers by directory: every version of a run's policy has its own copy of the same files. */
function tokenizers(): (dir: string) => Promise<PolicyTokenizer> {
  const known = new Map<string, Promise<PolicyTokenizer>>();
  return (dir) => {
    const cached = known.get(dir);
    if (cached) return cached;
    const loading = loadTokenizer(dir);
    loading.catch(() => known.delete(dir));
    known.set(dir, loading);
    if (known.size > 8) known.delete(known.keys().next().value ?? dir);
    return loading;
  };
}

/** A dead engine cannot come back in this process: it ends, and whoever supervises it starts another. */
function endingWhenLost(engine: Engine): Engine {
  const orEnd = (error: unknown): never => {
    if (error instanceof EngineLost) process.kill(process.pid, 'SIGTERM');
    throw error;
  };
  return {
    generate: (request, signal) => engine.generate(request, signal).catch(orEnd),
    update: (request, onProgress) => engine.update(request, onProgress).catch(orEnd),
    close: () => engine.close(),
  };
}

export async function runGpu(settings: WorkerSettings, temporal: WorkerConnection): Promise<void> {
  const store = openWorkerStore(settings);
  const engine = endingWhenLost(await createEmbeddedEngine());
  const worker = await Worker.create({
    ...commonOptions(temporal, settings.slots.gpu),
    taskQueue: QUEUES.gpu,
    activities: { ...createGpuActivities({ store, engine, endpoints: new EndpointClient(), tokenizerOf: tokenizers() }) },
  });
  await runWorkers('gpu', settings, [worker], async () => {
    await engine.close();
    await store.close();
  });
}
