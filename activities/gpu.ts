/** The `gpu` queue: samples turns and makes updates. */

import { Context } from '@temporalio/activity';
import type { GpuActivities } from '../protocol/activities.ts';
import { type GenerateDeps, generateTurn } from './generate/generate.ts';
import { withFailureMapping } from './failure-mapping.ts';
import { withHeartbeat } from './heartbeat.ts';
import { inItsTime } from './own-time.ts';
import { openEngine, type OpenEngineDeps } from './generate/open-engine.ts';
import { checkEndpoint } from './generate/endpoint-offer.ts';
import { patienceOf } from './generate/endpoint-patience.ts';
import { tried } from './tries.ts';
import { updateOnce } from './update/update.ts';

/** The activity's priority, which is its rollout's. The server sends 0 if none was set. */
const priorityKey = (): number | undefined => Context.current().info.priority?.priorityKey || undefined;

export function createGpuActivities(deps: GenerateDeps & OpenEngineDeps): GpuActivities {
  const { store } = deps;
  return {
    openEngine: (input) => withFailureMapping(() => withHeartbeat(() => openEngine(input, deps))),
    checkEndpoint: (input) => withFailureMapping(() => withHeartbeat((signal) => checkEndpoint(input, deps, signal))),
    generate: (input) =>
      tried({ store, place: 'gpu', ...patienceOf(input.policy) }, (signal) =>
        inItsTime(input.withinMs, signal, (own) => generateTurn(input, deps, own, priorityKey())),
      ),
    update: (input) =>
      tried({ store, place: 'gpu' }, (signal, progress) =>
        updateOnce(input, store, deps.backends, progress, { signal }),
      ),
  };
}
