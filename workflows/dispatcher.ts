/**
 * The pipeline dispatcher as a pure scheduler: it decides which rollout enters which stage, and nothing else. Each
 * stage has its own width, live sandboxes have a cap, and every rollout passes init, agent-run and reward once.
 */

import type { DispatcherSettings, Stage } from './types.ts';

export type Place = 'waiting' | 'init' | 'ready' | 'agent-run' | 'collected' | 'reward' | 'done';

export interface Admission {
  readonly rollout: number;
  readonly stage: Stage;
}

export class PipelineDispatcher {
  readonly #places: Place[] = [];
  readonly #widths: Readonly<Record<Stage, number>>;
  readonly #live: number;

  constructor(settings: DispatcherSettings) {
    this.#widths = {
      init: settings.init ?? Number.POSITIVE_INFINITY,
      'agent-run': settings.agentRun ?? Number.POSITIVE_INFINITY,
      reward: settings.reward ?? Number.POSITIVE_INFINITY,
    };
    this.#live = settings.liveSandboxes;
  }

  /** More rollouts, numbered on from those that were added before. */
  add(rollouts: number): void {
    for (let i = 0; i < rollouts; i += 1) this.#places.push('waiting');
  }

  /** What may begin now; each admission is given once, oldest rollout first, later stages first. */
  admissions(): Admission[] {
    return [...this.#admit('collected', 'reward'), ...this.#admit('ready', 'agent-run'), ...this.#admit('waiting', 'init')];
  }

  /** A rollout's stage has ended and the rollout goes on. */
  stageEnded(rollout: number, stage: 'init' | 'agent-run'): void {
    const place = this.#places[rollout];
    if (place !== stage) throw new TypeError(`Rollout ${rollout} is in ${place ?? 'no place'}, not in ${stage}`);
    this.#places[rollout] = stage === 'init' ? 'ready' : 'collected';
  }

  placeOf(rollout: number): Place | undefined {
    return this.#places[rollout];
  }

  /** A rollout is over, in whatever stage it was. */
  ended(rollout: number): void {
    this.#places[rollout] = 'done';
  }

  get endedCount(): number {
    return this.#count('done');
  }

  get liveSandboxes(): number {
    return this.#count('init') + this.#count('ready') + this.#count('agent-run');
  }

  #count(place: Place): number {
    return this.#places.filter((p) => p === place).length;
  }

  #admit(from: Place, stage: Stage): Admission[] {
    let room = this.#widths[stage] - this.#count(stage);
    if (stage === 'init') room = Math.min(room, this.#live - this.liveSandboxes);
    const admitted: Admission[] = [];
    for (const [rollout, place] of this.#places.entries()) {
      if (admitted.length >= room) break;
      if (place === from) admitted.push({ rollout, stage });
    }
    for (const { rollout } of admitted) this.#places[rollout] = stage;
    return admitted;
  }
}

/**
 * The stages whose begin must be asked for. A width that can never bind needs no signals: nothing more than the live
 * sandboxes can be in agent-run, and a reward width that is not set is the reward workers' own.
 */
export function gatesOf(rollouts: number, settings: DispatcherSettings): Array<'agent-run' | 'reward'> {
  const live = Math.min(rollouts, settings.liveSandboxes);
  const gates: Array<'agent-run' | 'reward'> = [];
  if ((settings.agentRun ?? live) < live || (settings.init ?? live) < live) gates.push('agent-run');
  if ((settings.reward ?? rollouts) < rollouts) gates.push('reward');
  return gates;
}
