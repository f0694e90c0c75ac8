/**
 * A batch on a virtual clock: the time of a schedule if orchestration cost nothing. The dispatcher is the workflow's
 * own, and receives the end of a stage when the clock has reached it.
 */

import { beginOrder, type Schedule } from '../../workflows/batch/dispatch-schedule.ts';
import { Dispatcher } from '../../workflows/batch/dispatcher.ts';
import type { Stage } from '../../protocol/rollout.ts';
import type { DispatchCase } from './cases.ts';
import { type Interval, measure, type Measures } from './measure.ts';
import { type Order, scheduleFor } from './orders.ts';
import { simulateReference } from './reference.ts';

interface Running extends Interval {
  readonly serial: number;
}

/** The intervals of all stages, in the order of their ends. */
export function simulate(
  { times, tasks, samples }: Pick<DispatchCase, 'times' | 'tasks' | 'samples'>,
  { caps, order }: Schedule,
): Interval[] {
  let now = 0;
  const dispatcher = new Dispatcher(caps, undefined, () => now);
  dispatcher.add(beginOrder({ samples }, 0, tasks, order));
  const running: Running[] = [];
  const ended: Interval[] = [];
  let serial = 0;
  const begin = () => {
    for (const { rollout, stage } of dispatcher.admissions()) {
      running.push({ rollout, stage, start: now, end: now + (times[rollout]?.[stage] ?? 0), serial: serial++ });
    }
    running.sort((a, b) => a.end - b.end || a.serial - b.serial);
  };
  for (begin(); running.length > 0; begin()) {
    const next = running.shift();
    if (!next) break;
    now = next.end;
    ended.push({ rollout: next.rollout, stage: next.stage, start: next.start, end: next.end });
    notify(dispatcher, next.rollout, next.stage);
  }
  return ended;
}

function notify(dispatcher: Dispatcher, rollout: number, stage: Stage): void {
  if (stage === 'reward') dispatcher.ended(rollout);
  else dispatcher.stageEnded(rollout, stage);
}

/** The reference has its own simulation, where ties are resolved as in Python's event loop. */
export function simulated(given: DispatchCase, order: Order): Measures {
  const ended = order === 'reference' ? simulateReference(given) : simulate(given, scheduleFor(order, given));
  return measure(ended, given.maxParallelAgents);
}
