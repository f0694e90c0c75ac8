/** The `gpu` queue: samples turns and makes updates. */

import type { GpuActivities } from '../workflows/activities.ts';
import { classified } from './failures.ts';
import { type GenerateDeps, generateTurn } from './rollout/generate.ts';
import { withHeartbeat } from './heartbeat.ts';
import { checkEndpoint } from './sampling/endpoint-offer.ts';
import { updateOnce } from './update/update.ts';

export function createGpuActivities(deps: GenerateDeps): GpuActivities {
  return {
    checkEndpoint: (input) => classified(() => withHeartbeat((signal) => checkEndpoint(input, deps, signal))),
    generate: (input) => classified(() => withHeartbeat((signal) => generateTurn(input, deps, signal))),
    update: (input) =>
      classified(() => withHeartbeat((_signal, progress) => updateOnce(input, deps.store, deps.engine, progress))),
  };
}
