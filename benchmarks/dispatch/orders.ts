/** The orders that `bench dispatch` compares: our three, and SkyRL-Agent's pipeline as the reference. */

import { type Schedule, scheduleOf } from '../../workflows/batch/dispatch-schedule.ts';
import type { DispatcherSettings } from '../../protocol/batch.ts';
import type { DispatchCase } from './cases.ts';

export const ORDERS = ['batch', 'bounded', 'pipeline', 'reference'] as const;
export type Order = (typeof ORDERS)[number];

/**
 * SkyRL-Agent's `async_pipeline`: three unbounded queues; the first is filled sample by sample, each with all tasks.
 * Init has as many workers as run, evaluation has its own number. The number of rollouts between stages has no limit.
 */
export function skyrlPipeline(run: number, evaluation: number): Schedule {
  return { caps: { open: Number.POSITIVE_INFINITY, init: run, 'agent-run': run, reward: evaluation }, order: 'sample' };
}

/** The dispatcher's settings of our orders; for the reference, the returned settings are not used. */
export function settingsFor(
  order: Order,
  { maxParallelAgents, maxEvalParallelAgents }: DispatchCase,
): DispatcherSettings {
  if (order === 'bounded') return { type: order, maxParallelAgents };
  return order === 'pipeline' ? { type: order, maxParallelAgents, maxEvalParallelAgents } : { type: 'batch' };
}

export function scheduleFor(order: Order, given: DispatchCase): Schedule {
  return order === 'reference'
    ? skyrlPipeline(given.maxParallelAgents, given.maxEvalParallelAgents)
    : scheduleOf(settingsFor(order, given));
}
