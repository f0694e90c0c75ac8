/** The GPU process: one engine per device; samples and trains. No workflow runs here. */

import { Worker } from '@temporalio/worker';
import { createGpuActivities } from '../../activities/gpu.ts';
import type { GenerateDeps, PolicyTokenizer } from '../../activities/generate.ts';
import { createEmbeddedEngine, EngineLost } from '../../trainer/embedded-engine.ts';
import { EndpointClient } from '../../trainer/backends/endpoint-client.ts';
import type { Engine } from '../../trainer/engine.ts';
import { fingerprintOf, MadeOfFiles } from '../../trainer/policy-files.ts';
import { loadTokenizer } from '../../trainer/tokenizer/load-tokenizer.ts';
import { QUEUES } from '../../workflows/queues.ts';
import { commonOptions, runWorkers } from '../run-worker.ts';
import { openWorkerStore } from '../worker-store.ts';
import { reportSampling } from './report-sampling.ts';
import type { WorkerSettings } from '../settings.ts';
import type { WorkerConnection } from '../temporal-connection.ts';

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
  const embedded = await createEmbeddedEngine();
  const endReport = reportSampling(embedded, (line) => process.stderr.write(`${new Date().toISOString()} INFO ${line}\n`));
  const engine = endingWhenLost(embedded);
  // Every version of a run's policy has its own copy of the same tokenizer.
  const tokenizers = new MadeOfFiles<PolicyTokenizer>(loadTokenizer, 8);
  const digests = new MadeOfFiles(fingerprintOf, 64);
  const deps: GenerateDeps = {
    store,
    engine,
    endpoints: new EndpointClient(),
    tokenizerOf: (dir) => tokenizers.of(dir),
    digestOf: (dir) => digests.of(dir),
  };
  const worker = await Worker.create({
    ...commonOptions(temporal, settings.slots.gpu),
    taskQueue: QUEUES.gpu,
    activities: { ...createGpuActivities(deps) },
  });
  await runWorkers('gpu', settings, [worker], async () => {
    endReport();
    await engine.close();
    await store.close();
  });
}
