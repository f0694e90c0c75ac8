/** A dead engine cannot restart in its process: the request fails, the process ends, and its supervisor restarts it. */

import { EngineLost } from '../../trainer/embedded/embedded-engine.ts';
import type { PoolEngine } from '../../trainer/engine.ts';

export const endProcess = () => void process.kill(process.pid, 'SIGTERM');

/** Wraps the engine: calls `end` for each request that finds it lost. By default the process drains and ends. */
export function endingWhenLost(engine: PoolEngine, end: () => void = endProcess): PoolEngine {
  const orEnd = (error: unknown): never => {
    if (error instanceof EngineLost) end();
    throw error;
  };
  /** The same call with the same arguments. */
  const watched =
    <Given extends unknown[], Result>(ask: (...given: Given) => Promise<Result>) =>
    (...given: Given): Promise<Result> =>
      ask(...given).catch(orEnd);
  return {
    generate: watched(engine.generate.bind(engine)),
    update: watched(engine.update.bind(engine)),
    planUpdate: watched(engine.planUpdate.bind(engine)),
    forwardBackward: watched(engine.forwardBackward.bind(engine)),
    optimStep: watched(engine.optimStep.bind(engine)),
    close: () => engine.close(),
  };
}
