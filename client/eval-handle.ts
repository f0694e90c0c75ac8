/** A handle on one eval: its sweep lives in Temporal, its results in the store and in its folder. */

import type { Client } from '@temporalio/client';
import type { SweepResult, SweepStatus } from '../protocol/eval.ts';
import { DurableHandle } from './durable-handle.ts';

export class EvalHandle extends DurableHandle<SweepStatus, SweepResult> {
  readonly eval: string;

  constructor(client: Client, id: string) {
    super(client, `eval/${id}`);
    this.eval = id;
  }
}
