/** The engine's thread, in which TensorFlow runs. It answers each request of its owner once. */

import { parentPort, workerData } from 'node:worker_threads';
import { engineKinds } from '../engine-kind.ts';
import { EngineCore, type Train } from './core.ts';
import { type FromThread, type ThreadOptions, type ToThread, errorData } from './messages.ts';
import { EmbeddedTrainer } from './embedded-trainer.ts';
import { ResidentCritic } from '../critic/resident-critic.ts';
import { type PackedData, unpackData } from './packed-data.ts';
import { loadPolicy } from '../sampler/policy-loader.ts';
import { Sampler } from '../sampler/sampler.ts';
import { ShardedUpdater } from '../sharded/sharded-updater.ts';
import { TenantBases } from '../tenants/tenant-bases.ts';
import { Updater } from '../update.ts';

const port = parentPort;
if (port === null) throw new Error('engine-worker.ts runs in a worker thread: use createEmbeddedEngine');

const sampler = new Sampler({ ...(workerData as ThreadOptions), load: ({ dir }) => loadPolicy(dir) });
const trainer = new EmbeddedTrainer();
const critics = new ResidentCritic();
const tenants = new TenantBases();
const [updater, sharded] = [new Updater(trainer, critics), new ShardedUpdater(trainer, critics)];

const unpacked = <Request extends { readonly data: PackedData }>(request: Request) => ({
  ...request,
  data: unpackData(request.data),
});

const train: Train = async (work, onProgress, signal) => {
  switch (work.what) {
    case 'update':
      return updater.run(unpacked(work.request), onProgress);
    case 'planUpdate':
      return sharded.planUpdate(unpacked(work.request));
    case 'forwardBackward':
      await sharded.forwardBackward(work.request, onProgress);
      return undefined;
    case 'optimStep':
      await sharded.optimStep(work.request, onProgress);
      return undefined;
    case 'tenant':
      return tenants.call(work.base, work.call, signal);
  }
};

const core = new EngineCore(sampler, (...call) => sampler.generate(...call), train);
const running = new Map<number, AbortController>();

const say = (message: FromThread): void => port.postMessage(message);

function answer(id: number, result: Promise<Extract<FromThread, { kind: 'done' }>['result']>): void {
  result
    .then((value) => say({ kind: 'done', id, result: value }))
    .catch((error: unknown) => say({ kind: 'failed', id, error: errorData(error) }))
    .finally(() => running.delete(id));
}

/** The owner has rejected all open requests already. Without the port nothing keeps the thread alive. */
async function close(): Promise<void> {
  for (const controller of running.values()) controller.abort();
  await sampler.idle();
  sampler.dispose();
  tenants.dispose();
  port?.close();
}

port.on('message', (message: ToThread) => {
  switch (message.kind) {
    case 'generate': {
      const controller = new AbortController();
      running.set(message.id, controller);
      return answer(
        message.id,
        core.generate(message.request, controller.signal, (cost) => say({ kind: 'cost', id: message.id, cost })),
      );
    }
    case 'train': {
      const controller = new AbortController();
      // Of training, only calls of adapters are stopped: their callers run them again from a state on disk.
      if (message.work.what === 'tenant') running.set(message.id, controller);
      return answer(
        message.id,
        core.train(message.work, (fraction) => say({ kind: 'progress', id: message.id, fraction }), controller.signal),
      );
    }
    case 'stats':
      return answer(message.id, Promise.resolve(core.stats()));
    case 'describe':
      return answer(message.id, (async () => engineKinds(sampler.decoder))());
    case 'abort':
      return running.get(message.id)?.abort();
    case 'close':
      return void close();
  }
});

say({ kind: 'ready' });
