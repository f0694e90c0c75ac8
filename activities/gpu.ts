/** The `gpu` queue: samples turns and makes updates. */

import type { GpuActivities } from '../workflows/activities.ts';
import { classified } from './failures.ts';
import { type GenerateDeps, generateTurn } from './generate.ts';
import { withHeartbeat } from './heartbeat.ts';
import { updateOnce } from './update.ts';

export function createGpuActivities(deps: GenerateDeps): GpuActivities {
  return {
    generate: (input) => classified(() => withHeartbeat((signal) => generateTurn(input, deps, signal))),
    update: (input) =>
      classified(() => withHeartbeat((_signal, progress) => updateOnce(input, deps.store, deps.engine, progress))),
  };
}
