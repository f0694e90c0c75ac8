/** What a unit tells its run when it has ended: by signal, which finds the run whatever history it is in. */

import { defineSignal } from '@temporalio/workflow';
import type { BatchEnds } from '../../failures/run-failures.ts';

export type UnitReport =
  | { readonly number: number; readonly end: 'rolled-out'; readonly groups: number; readonly ends?: BatchEnds }
  | { readonly number: number; readonly end: 'cancelled' | 'failed'; readonly message: string };

export const unitEndedSignal = defineSignal<[UnitReport]>('unitEnded');
