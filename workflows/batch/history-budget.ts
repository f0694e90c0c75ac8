/** What may still start in a batch's current history, and what must end in it. */

import { workflowInfo } from '@temporalio/workflow';
import type { GatedStage } from '../../protocol/rollout.ts';
import { hasRoom, isFull } from './long-batch.ts';

export class HistoryBudget {
  readonly #gates: readonly GatedStage[];
  /** True if the batch may continue in a new history. */
  #long: boolean;
  /** Rollouts that were started while the batch was short: they end in this history. */
  readonly #bound = new Set<number>();
  /** Number of starts that are not confirmed yet. */
  #beginning = 0;

  constructor(long: boolean, gates: readonly GatedStage[]) {
    this.#long = long;
    this.#gates = gates;
  }

  /** True if nothing more starts in this history. */
  get isFull(): boolean {
    return this.#long && isFull(workflowInfo(), this.#beginning);
  }

  /** True if the history is full and no rollout must end in it. */
  get canContinueAsNew(): boolean {
    return this.isFull && this.#bound.size === 0;
  }

  /** How many rollouts may start now. */
  get places(): number {
    return CHUNK - this.#beginning;
  }

  /** Returns whether the rollout may outlive this history. */
  begin(index: number): boolean {
    this.#beginning += 1;
    this.#long ||= !hasRoom(this.#bound.size, workflowInfo(), this.#gates);
    if (!this.#long) this.#bound.add(index);
    return this.#long;
  }

  /** The start of a rollout was confirmed, or failed. */
  answered(): void {
    this.#beginning -= 1;
  }

  ended(index: number): void {
    this.#bound.delete(index);
  }
}

/**
 * Children that are started, signalled or cancelled at once: far below Temporal's limits on pending operations,
 * commands and bytes.
 */
export const CHUNK = 100;

export function chunksOf<T>(all: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(all.length / CHUNK) }, (_, i) => all.slice(i * CHUNK, (i + 1) * CHUNK));
}
