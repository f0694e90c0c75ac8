/**
 * The dispatcher as a pure scheduler: it decides which rollout enters which stage, and nothing else. It is notified of
 * a stage only when the stage has ended. No cap is ever exceeded. Rollouts enter a stage in the order in which they
 * asked for it; for agent-run, in the order in which they would have asked with fewer inits at once.
 */

import type { Stage } from '../../protocol/rollout.ts';
import { type Packed, packed, unpacked } from './packed.ts';
import { ReadyOrder } from './ready-order.ts';

/** The most rollouts at once in each stage, and `open`: those that have started and have not ended. */
export type Caps = Readonly<Record<Stage | 'open', number>>;

export type Place = 'waiting' | 'init' | 'ready' | 'agent-run' | 'collected' | 'reward' | 'done';

export interface Admission {
  readonly rollout: number;
  readonly stage: Stage;
}

/**
 * The place of each rollout that is not done; carried over to another history. Waiting ones are in the order in which
 * they asked.
 */
export type DispatcherProgress = Readonly<Record<Exclude<Place, 'done'>, Packed>>;

/** The place in which a rollout waits for a stage. Later stages are admitted first: rollouts that end make room. */
const WAITS_IN: ReadonlyArray<readonly [Place, Stage]> = [
  ['collected', 'reward'],
  ['ready', 'agent-run'],
  ['waiting', 'init'],
];

export class Dispatcher {
  readonly #caps: Caps;
  readonly #places = new Map<number, Place>();
  /** Rollouts that wait for a stage, in the order in which they asked. */
  readonly #queues: Record<Stage, number[]> = { init: [], 'agent-run': [], reward: [] };
  readonly #inside: Record<Stage, number> = { init: 0, 'agent-run': 0, reward: 0 };
  /** `undefined` if agent-run has no cap: then no rollout waits for it. */
  readonly #readyOrder: ReadyOrder | undefined;
  #open = 0;

  /** `clock`: in any unit. With a constant one, rollouts enter in the order in which they asked. */
  constructor(caps: Caps, progress?: DispatcherProgress, clock: () => number = () => 0) {
    this.#caps = caps;
    this.#readyOrder = Number.isFinite(caps['agent-run']) ? new ReadyOrder(caps['agent-run'], clock) : undefined;
    if (progress) this.#restore(progress);
  }

  get progress(): DispatcherProgress {
    const inside = (place: Place) =>
      packed([...this.#places].flatMap(([rollout, at]) => (at === place ? [rollout] : [])));
    const waits = (place: Place, stage: Stage) =>
      packed(this.#queues[stage].filter((rollout) => this.placeOf(rollout) === place));
    return {
      waiting: waits('waiting', 'init'),
      init: inside('init'),
      ready: waits('ready', 'agent-run'),
      'agent-run': inside('agent-run'),
      collected: waits('collected', 'reward'),
      reward: inside('reward'),
    };
  }

  /** Rollouts that have started and have not ended. */
  get openRollouts(): number[] {
    return [...this.#places].flatMap(([rollout, place]) => (place === 'waiting' || place === 'done' ? [] : [rollout]));
  }

  /** Adds rollouts, by number, in the order in which they are to start. */
  add(rollouts: Iterable<number>): void {
    for (const rollout of rollouts) {
      if (this.#places.has(rollout)) throw new TypeError(`Rollout ${rollout} was added before`);
      this.#wait(rollout, 'waiting', 'init');
    }
  }

  /** What may start now. Each admission is returned once. */
  admissions(): Admission[] {
    return WAITS_IN.flatMap(([from, stage]) => this.#admit(from, stage));
  }

  /** A rollout's stage has ended and the rollout continues. */
  stageEnded(rollout: number, stage: 'init' | 'agent-run'): void {
    const place = this.placeOf(rollout);
    if (place !== stage) throw new TypeError(`Rollout ${rollout} is in ${place ?? 'no place'}, not in ${stage}`);
    this.#inside[stage] -= 1;
    if (stage === 'init') this.#readyOrder?.initEnded(rollout);
    if (stage === 'init') this.#wait(rollout, 'ready', 'agent-run');
    else this.#wait(rollout, 'collected', 'reward');
  }

  /** A rollout has ended, in any place since its start: its place is free. */
  ended(rollout: number): void {
    const place = this.placeOf(rollout);
    if (place === undefined || place === 'waiting' || place === 'done') {
      throw new TypeError(`Rollout ${rollout} is in ${place ?? 'no place'} and cannot end`);
    }
    if (place in this.#inside) this.#inside[place as Stage] -= 1;
    if (place === 'init') this.#readyOrder?.initEnded(rollout);
    this.#readyOrder?.left(rollout);
    this.#places.set(rollout, 'done');
    this.#open -= 1;
  }

  /** A rollout that waits for its start never starts. */
  withdrawn(rollout: number): void {
    if (this.placeOf(rollout) !== 'waiting')
      throw new TypeError(`Rollout ${rollout} is in ${this.placeOf(rollout) ?? 'no place'} and cannot be withdrawn`);
    this.#places.set(rollout, 'done');
  }

  placeOf(rollout: number): Place | undefined {
    return this.#places.get(rollout);
  }

  /** Number of rollouts that have started and have not ended: each holds one sandbox at most. */
  get open(): number {
    return this.#open;
  }

  #restore(progress: DispatcherProgress): void {
    for (const [place, stage] of WAITS_IN)
      for (const rollout of unpacked(progress[place as keyof DispatcherProgress])) this.#wait(rollout, place, stage);
    for (const stage of ['init', 'agent-run', 'reward'] as const) {
      const inside = unpacked(progress[stage]);
      for (const rollout of inside) this.#places.set(rollout, stage);
      this.#inside[stage] = inside.length;
    }
    this.#open = this.#places.size - this.#queues.init.length;
  }

  #wait(rollout: number, place: Place, stage: Stage): void {
    this.#places.set(rollout, place);
    this.#queues[stage].push(rollout);
  }

  /** Sorts only if some can enter agent-run and some cannot. */
  #sortReady(): void {
    const free = this.#caps['agent-run'] - this.#inside['agent-run'];
    const queue = this.#queues['agent-run'];
    if (this.#readyOrder === undefined || free <= 0 || queue.length <= free) return;
    this.#queues['agent-run'] = this.#readyOrder.sorted(queue.filter((rollout) => this.placeOf(rollout) === 'ready'));
  }

  #admit(from: Place, stage: Stage): Admission[] {
    const admitted: Admission[] = [];
    if (stage === 'agent-run') this.#sortReady();
    const queue = this.#queues[stage];
    // Entries are removed together: removing each alone would move the rest of a long list every time.
    let seen = 0;
    while (this.#inside[stage] < this.#caps[stage] && (stage !== 'init' || this.#open < this.#caps.open)) {
      const rollout = queue[seen];
      if (rollout === undefined) break;
      seen += 1;
      // A rollout that ended while it waited is still in the queue.
      if (this.placeOf(rollout) !== from) continue;
      this.#places.set(rollout, stage);
      this.#inside[stage] += 1;
      if (stage === 'init') {
        this.#open += 1;
        this.#readyOrder?.began(rollout);
      }
      if (stage === 'agent-run') this.#readyOrder?.left(rollout);
      admitted.push({ rollout, stage });
    }
    queue.splice(0, seen);
    return admitted;
  }
}

/**
 * The stages that need admission, because their cap can be reached. Without any, a rollout adds nothing to its parent's
 * history between start and end.
 */
export function gatesOf(rollouts: number, caps: Caps): Array<'agent-run' | 'reward'> {
  const open = Math.min(rollouts, caps.open);
  const gates: Array<'agent-run' | 'reward'> = [];
  // The end of init is reported at the gate of agent-run.
  if (Math.min(caps.init, caps['agent-run']) < open) gates.push('agent-run');
  if (caps.reward < open) gates.push('reward');
  return gates;
}
