/** A dead engine cannot come back in its process: who asks it hears so, and the process ends, so that its supervisor starts another. */

import { EngineLost } from '../../trainer/embedded/embedded-engine.ts';
import type { PoolEngine } from '../../trainer/engine.ts';

const endProcess = () => void process.kill(process.pid, 'SIGTERM');

/** The engine, with `end` called for each request that finds it lost; by default the process drains and ends. */
export function endingWhenLost(engine: PoolEngine, end: () => void = endProcess): PoolEngine {
  const orEnd = (error: unknown): never => {
    if (error instanceof EngineLost) end();
    throw error;
  };
  return {
    generate: (request, signal) => engine.generate(request, signal).catch(orEnd),
    update: (request, onProgress) => engine.update(request, onProgress).catch(orEnd),
    planUpdate: (request) => engine.planUpdate(request).catch(orEnd),
    makeShard: (request, onProgress) => engine.makeShard(request, onProgress).catch(orEnd),
    applyShards: (request, onProgress) => engine.applyShards(request, onProgress).catch(orEnd),
    close: () => engine.close(),
  };
}
