/** The `gpu` queue: samples turns and makes updates. */

import { Context } from '@temporalio/activity';
import type { GpuActivities } from '../workflows/activities.ts';
import { classified } from './failures.ts';
import { type GenerateDeps, generateTurn } from './rollout/generate.ts';
import { withHeartbeat } from './heartbeat.ts';
import { checkEndpoint } from './sampling/endpoint-offer.ts';
import { updateOnce } from './update/update.ts';

/** Of the activity, which has its rollout's; where nobody said one, the server's word for that is 0. */
const priorityKey = (): number | undefined => Context.current().info.priority?.priorityKey || undefined;

export function createGpuActivities(deps: GenerateDeps): GpuActivities {
  return {
    checkEndpoint: (input) => classified(() => withHeartbeat((signal) => checkEndpoint(input, deps, signal))),
    generate: (input) => classified(() => withHeartbeat((signal) => generateTurn(input, deps, signal, priorityKey()))),
    update: (input) =>
      classified(() => withHeartbeat((_signal, progress) => updateOnce(input, deps.store, deps.engine, progress))),
  };
}
