/** The engine's thread: the one that TensorFlow runs in. It answers each message of its owner once. */

import { parentPort, workerData } from 'node:worker_threads';
import { EngineCore } from './embedded-engine-core.ts';
import { type FromThread, type ThreadOptions, type ToThread, errorData } from './embedded-engine-messages.ts';
import { loadPolicy } from './sampler/policy-loader.ts';
import { Sampler } from './sampler/sampler.ts';
import { runUpdate } from './update.ts';

const port = parentPort;
if (port === null) throw new Error('engine-worker.ts runs in a worker thread: use createEmbeddedEngine');

const sampler = new Sampler({ ...(workerData as ThreadOptions), load: ({ dir }) => loadPolicy(dir) });
const core = new EngineCore(sampler, runUpdate);
const running = new Map<number, AbortController>();

const say = (message: FromThread): void => port.postMessage(message);

function answer(id: number, result: Promise<Extract<FromThread, { kind: 'done' }>['result']>): void {
  result
    .then((value) => say({ kind: 'done', id, result: value }))
    .catch((error: unknown) => say({ kind: 'failed', id, error: errorData(error) }))
    .finally(() => running.delete(id));
}

/** Whatever still waits has been told by the owner; without the port nothing keeps the thread alive. */
async function close(): Promise<void> {
  for (const controller of running.values()) controller.abort();
  await sampler.idle();
  sampler.dispose();
  port?.close();
}

port.on('message', (message: ToThread) => {
  switch (message.kind) {
    case 'generate': {
      const controller = new AbortController();
      running.set(message.id, controller);
      return answer(message.id, core.generate(message.request, controller.signal));
    }
    case 'update':
      return answer(
        message.id,
        core.update(message.request, (fraction) => say({ kind: 'progress', id: message.id, fraction })),
      );
    case 'stats':
      return answer(message.id, Promise.resolve(core.stats()));
    case 'abort':
      return running.get(message.id)?.abort();
    case 'close':
      return void close();
  }
});

say({ kind: 'ready' });
