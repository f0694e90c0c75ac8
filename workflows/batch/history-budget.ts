/** What of a batch may still begin in the history that it is in, and what must end in it. */

import { workflowInfo } from '@temporalio/workflow';
import type { GatedStage } from '../../protocol/rollout.ts';
import { hasRoom, isFull } from './long-batch.ts';

export class HistoryBudget {
  readonly #gates: readonly GatedStage[];
  /** The batch may go on in a new history. */
  #long: boolean;
  /** Begun while it was short: they end in this history. */
  readonly #bound = new Set<number>();
  /** Begins that are not answered yet. */
  #beginning = 0;

  constructor(long: boolean, gates: readonly GatedStage[]) {
    this.#long = long;
    this.#gates = gates;
  }

  /** Nothing more begins here. */
  get isFull(): boolean {
    return this.#long && isFull(workflowInfo(), this.#beginning);
  }

  /** Full, and nothing must end here: the batch may go on in a new history. */
  get canContinueAsNew(): boolean {
    return this.isFull && this.#bound.size === 0;
  }

  /** So many may begin now. */
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

  /** The begin of a rollout was answered. */
  answered(): void {
    this.#beginning -= 1;
  }

  ended(index: number): void {
    this.#bound.delete(index);
  }
}

/** Children being started, signalled or cancelled at once: far below Temporal's limits on what is pending, on commands and on bytes. */
export const CHUNK = 100;

export function chunksOf<T>(all: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(all.length / CHUNK) }, (_, i) => all.slice(i * CHUNK, (i + 1) * CHUNK));
}
