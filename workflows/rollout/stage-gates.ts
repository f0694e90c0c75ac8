/**
 * The gates of one rollout: a gated stage starts only after the parent has admitted it, and if there is any gate, the
 * parent receives every stage's end. Without a parent nothing is gated.
 */

import { defineSignal, getExternalWorkflowHandle, workflowInfo } from '@temporalio/workflow';
import type { GatedStage } from '../../protocol/rollout.ts';

/** From the parent: the named stage may start. */
export const proceedSignal = defineSignal<[GatedStage]>('proceed');
/** To the parent: this child's stage has ended. */
export const stageEndedSignal = defineSignal<[string, 'init' | GatedStage]>('stageEnded');

export class StageGates {
  readonly #allowed: Set<GatedStage>;
  readonly #gated: ReadonlySet<GatedStage>;

  constructor(gated: readonly GatedStage[], allowed: readonly GatedStage[]) {
    this.#gated = new Set(gated);
    this.#allowed = new Set(allowed);
  }

  allow(stage: GatedStage): void {
    this.#allowed.add(stage);
  }

  get allowed(): GatedStage[] {
    return [...this.#allowed];
  }

  isOpen(stage: GatedStage): boolean {
    return !workflowInfo().parent || !this.#gated.has(stage) || this.#allowed.has(stage);
  }

  async report(ended: 'init' | GatedStage): Promise<void> {
    const { parent, workflowId } = workflowInfo();
    if (!parent || this.#gated.size === 0) return;
    await getExternalWorkflowHandle(parent.workflowId).signal(stageEndedSignal, workflowId, ended);
  }
}
