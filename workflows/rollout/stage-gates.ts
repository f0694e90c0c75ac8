/**
 * The gates of one rollout: a gated stage begins only when the parent has let it in, and where there is a gate, the
 * parent hears of every stage's end. Without a parent nothing is gated.
 */

import { defineSignal, getExternalWorkflowHandle, workflowInfo } from '@temporalio/workflow';
import type { GatedStage } from '../../protocol/rollout.ts';

/** From the parent: the named stage may begin. */
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
