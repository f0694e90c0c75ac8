/**
 * The dispatcher as a pure scheduler: it decides which rollout enters which stage, and nothing else. It hears of a stage
 * only when that stage has ended, no cap is ever exceeded, and whoever asked first for a stage enters it first; into
 * agent-run, whoever would have asked first with fewer inits at once.
 */

import type { Stage } from '../../protocol/rollout.ts';
import { type Packed, packed, unpacked } from './packed.ts';
import { ReadyOrder } from './ready-order.ts';

/** The most rollouts at once in each stage, and `open`: those that have begun and have not ended. */
export type Caps = Readonly<Record<Stage | 'open', number>>;

export type Place = 'waiting' | 'init' | 'ready' | 'agent-run' | 'collected' | 'reward' | 'done';

export interface Admission {
  readonly rollout: number;
  readonly stage: Stage;
}

/** Who is where, but for those that are done; carried over to another history. Waiting ones in the order in which they asked. */
export type DispatcherProgress = Readonly<Record<Exclude<Place, 'done'>, Packed>>;

/** Where a rollout waits for a stage. Later stages are let in first: what they end makes room. */
const WAITS_IN: ReadonlyArray<readonly [Place, Stage]> = [
  ['collected', 'reward'],
  ['ready', 'agent-run'],
  ['waiting', 'init'],
];

export class Dispatcher {
  readonly #caps: Caps;
  readonly #places = new Map<number, Place>();
  /** Who waits for a stage, the first to ask first. */
  readonly #queues: Record<Stage, number[]> = { init: [], 'agent-run': [], reward: [] };
  readonly #inside: Record<Stage, number> = { init: 0, 'agent-run': 0, reward: 0 };
  /** Where agent-run has no cap, nobody waits for it. */
  readonly #readyOrder: ReadyOrder | undefined;
  #open = 0;

  /** `clock`: in any unit; one that stands still lets in whoever asked first. */
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

  /** Those that have begun and have not ended. */
  get openRollouts(): number[] {
    return [...this.#places].flatMap(([rollout, place]) => (place === 'waiting' || place === 'done' ? [] : [rollout]));
  }

  /** More rollouts, by their numbers, in the order in which they are to begin. */
  add(rollouts: Iterable<number>): void {
    for (const rollout of rollouts) {
      if (this.#places.has(rollout)) throw new TypeError(`Rollout ${rollout} was added before`);
      this.#wait(rollout, 'waiting', 'init');
    }
  }

  /** What may begin now; each admission is given once. */
  admissions(): Admission[] {
    return WAITS_IN.flatMap(([from, stage]) => this.#admit(from, stage));
  }

  /** A rollout's stage has ended and the rollout goes on. */
  stageEnded(rollout: number, stage: 'init' | 'agent-run'): void {
    const place = this.placeOf(rollout);
    if (place !== stage) throw new TypeError(`Rollout ${rollout} is in ${place ?? 'no place'}, not in ${stage}`);
    this.#inside[stage] -= 1;
    if (stage === 'init') this.#readyOrder?.initEnded(rollout);
    if (stage === 'init') this.#wait(rollout, 'ready', 'agent-run');
    else this.#wait(rollout, 'collected', 'reward');
  }

  /** A rollout is over, wherever it was since it began: its place is free. */
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

  /** A rollout that waits for its begin does not begin. */
  withdrawn(rollout: number): void {
    if (this.placeOf(rollout) !== 'waiting')
      throw new TypeError(`Rollout ${rollout} is in ${this.placeOf(rollout) ?? 'no place'} and cannot be withdrawn`);
    this.#places.set(rollout, 'done');
  }

  placeOf(rollout: number): Place | undefined {
    return this.#places.get(rollout);
  }

  /** Rollouts that have begun and have not ended: each holds one sandbox at most. */
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

  /** Where some can enter agent-run and some cannot. */
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
    // Out of a long list each by itself would move all that are left.
    let seen = 0;
    while (this.#inside[stage] < this.#caps[stage] && (stage !== 'init' || this.#open < this.#caps.open)) {
      const rollout = queue[seen];
      if (rollout === undefined) break;
      seen += 1;
      // Whoever ended while it waited has left its number behind.
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
 * The stages whose begin must be asked for: where a cap can bind. Without any, a rollout costs its parent nothing
 * between start and end.
 */
export function gatesOf(rollouts: number, caps: Caps): Array<'agent-run' | 'reward'> {
  const open = Math.min(rollouts, caps.open);
  const gates: Array<'agent-run' | 'reward'> = [];
  // The end of init is told at the gate of agent-run.
  if (Math.min(caps.init, caps['agent-run']) < open) gates.push('agent-run');
  if (caps.reward < open) gates.push('reward');
  return gates;
}
