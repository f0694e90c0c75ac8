/** The orders that `bench dispatch` compares: our three, and SkyRL-Agent's pipeline as the reference. */

import { type Schedule, scheduleOf } from '../../../workflows/dispatch-schedule.ts';
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

export function scheduleFor(order: Order, { maxParallelAgents, maxEvalParallelAgents }: DispatchCase): Schedule {
  if (order === 'batch') return scheduleOf({ type: order });
  if (order === 'bounded') return scheduleOf({ type: order, maxParallelAgents });
  if (order === 'pipeline') return scheduleOf({ type: order, maxParallelAgents, maxEvalParallelAgents });
  return skyrlPipeline(maxParallelAgents, maxEvalParallelAgents);
}
