/**
 * SkyRL-Agent's `async_pipeline` on a virtual clock, exact to the order of events: rollouts whose stages end at one
 * instant continue in the order of Python's event loop, since that decides which is first in the next queue.
 *
 * Sources: `skyrl_agent/dispatcher/dispatchers.py` of NovaSky-AI/SkyRL; `asyncio/base_events.py`, `asyncio/queues.py`
 * and `heapq.py` of Python 3.
 */

import type { Stage } from '../../protocol/rollout.ts';
import type { DispatchCase } from './cases.ts';
import type { Interval } from './measure.ts';

/** Timers of one loop fire together within its clock's resolution. */
const CLOCK_RESOLUTION = 1e-9;

interface Timer {
  readonly at: number;
  readonly fire: () => void;
}

/** `heapq`: it returns timers with equal times in an order of its own, neither first nor last in, first out. */
class Heap {
  readonly #items: Timer[] = [];

  get first(): Timer | undefined {
    return this.#items[0];
  }

  push(timer: Timer): void {
    this.#items.push(timer);
    this.#up(this.#items.length - 1);
  }

  pop(): Timer | undefined {
    const first = this.#items[0];
    const last = this.#items.pop();
    if (last !== undefined && this.#items.length > 0) this.#replaceFirst(last);
    return first;
  }

  /** Moves the hole down to a leaf along the smaller children, puts `timer` there, and moves it up. */
  #replaceFirst(timer: Timer): void {
    const items = this.#items;
    let hole = 0;
    for (let child = 1; child < items.length; child = 2 * hole + 1) {
      const right = child + 1;
      const smaller = right < items.length && !(this.#at(child) < this.#at(right)) ? right : child;
      items[hole] = items[smaller] ?? timer;
      hole = smaller;
    }
    items[hole] = timer;
    this.#up(hole);
  }

  #up(from: number): void {
    const items = this.#items;
    const timer = items[from];
    if (timer === undefined) return;
    let place = from;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      const above = items[parent];
      if (above === undefined || !(timer.at < above.at)) break;
      items[place] = above;
      place = parent;
    }
    items[place] = timer;
  }

  #at(index: number): number {
    return this.#items[index]?.at ?? Number.POSITIVE_INFINITY;
  }
}

/** Python's event loop: it runs what is ready in rounds; between rounds the clock advances to the next timer. */
class Loop {
  readonly #timers = new Heap();
  #ready: Array<() => void> = [];
  now = 0;

  soon(step: () => void): void {
    this.#ready.push(step);
  }

  /** `asyncio.sleep`: a sleep of length 0 takes a round and no timer. */
  sleep(seconds: number, then: () => void): void {
    if (seconds <= 0) this.soon(then);
    // A timer resolves the future, and the waiting task continues one round later.
    else this.#timers.push({ at: this.now + seconds, fire: () => this.soon(then) });
  }

  run(): void {
    while (this.#ready.length > 0 || this.#timers.first !== undefined) {
      if (this.#ready.length === 0) this.now = Math.max(this.now, this.#timers.first?.at ?? 0);
      while (this.#timers.first !== undefined && this.#timers.first.at < this.now + CLOCK_RESOLUTION) {
        const timer = this.#timers.pop();
        if (timer) this.#ready.push(timer.fire);
      }
      for (const step of this.#ready.splice(0)) step();
    }
  }
}

/** `asyncio.Queue`: a getter that is woken may find its item taken by another one, and waits again as the last. */
class Queue {
  readonly #loop: Loop;
  readonly #items: number[] = [];
  readonly #getters: Array<() => void> = [];

  constructor(loop: Loop) {
    this.#loop = loop;
  }

  put(item: number): void {
    this.#items.push(item);
    const getter = this.#getters.shift();
    if (getter) this.#loop.soon(getter);
  }

  get(taken: (item: number) => void): void {
    const item = this.#items.shift();
    if (item === undefined) this.#getters.push(() => this.get(taken));
    else taken(item);
  }
}

/** The intervals of all stages, in the order of their ends. */
export function simulateReference({
  times,
  tasks,
  samples,
  maxParallelAgents,
  maxEvalParallelAgents,
}: DispatchCase): Interval[] {
  const loop = new Loop();
  const [init, run, reward] = [new Queue(loop), new Queue(loop), new Queue(loop)];
  const ended: Interval[] = [];
  const worker = (stage: Stage, from: Queue, to: Queue | undefined): void => {
    from.get((rollout) => {
      const start = loop.now;
      loop.sleep(times[rollout]?.[stage] ?? 0, () => {
        ended.push({ rollout, stage, start, end: loop.now });
        to?.put(rollout);
        worker(stage, from, to);
      });
    });
  };
  for (let sample = 0; sample < samples; sample += 1)
    for (let task = 0; task < tasks; task += 1) init.put(task * samples + sample);
  const stages = [
    ['init', init, run, maxParallelAgents],
    ['agent-run', run, reward, maxParallelAgents],
    ['reward', reward, undefined, maxEvalParallelAgents],
  ] as const;
  for (const [stage, from, to, width] of stages)
    for (let i = 0; i < Math.min(width, tasks * samples); i += 1) loop.soon(() => worker(stage, from, to));
  loop.run();
  return ended;
}
