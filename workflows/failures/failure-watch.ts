/** A batch's circuit breaker: tells the parent once when it opens; a batch without settings or parent tells nothing. */

import { defineSignal, getExternalWorkflowHandle, workflowInfo } from '@temporalio/workflow';
import { type BreakerSettings, CircuitBreaker, type Trip } from './circuit-breaker.ts';
import type { RolloutResult } from '../messages/rollout.ts';

/** To the parent: too many rollouts failed alike. */
export const circuitOpenedSignal = defineSignal<[Trip]>('circuitOpened');

export class FailureWatch {
  readonly #breaker: CircuitBreaker;

  constructor(settings: BreakerSettings | undefined) {
    this.#breaker = new CircuitBreaker(settings ?? { inARow: 0, share: 1 });
  }

  /** Never fails: a parent that has ended needs to hear nothing. */
  heard(result: RolloutResult): void {
    const trip = this.#breaker.heard(result);
    const { parent } = workflowInfo();
    if (trip && parent) getExternalWorkflowHandle(parent.workflowId).signal(circuitOpenedSignal, trip).catch(() => undefined);
  }

  reset(): void {
    this.#breaker.reset();
  }
}
