/** The orders that `bench dispatch` compares: our three, and SkyRL-Agent's pipeline as the reference. */

import { type Schedule, scheduleOf } from '../../workflows/batch/dispatch-schedule.ts';
import type { DispatcherSettings } from '../../protocol/batch.ts';
import type { DispatchCase } from './cases.ts';

export const ORDERS = ['batch', 'bounded', 'pipeline', 'reference'] as const;
export type Order = (typeof ORDERS)[number];

/**
 * SkyRL-Agent's `async_pipeline`: three unbounded queues, the first filled with one sample of every task after the
 * other; as many workers at init as at run, others at evaluation. Nothing bounds what waits between the stages.
 */
export function skyrlPipeline(run: number, evaluation: number): Schedule {
  return { caps: { open: Number.POSITIVE_INFINITY, init: run, 'agent-run': run, reward: evaluation }, order: 'sample' };
}

/** The settings of ours; the reference has none, and what stands here for it is not read. */
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
