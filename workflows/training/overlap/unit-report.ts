/** What a run hears of its units' ends: by signals, which find the run whatever history it is in. */

import { defineSignal } from '@temporalio/workflow';
import type { Failure } from '../../../protocol/finish-reason.ts';
import type { BatchEnds } from '../../failures/run-failures.ts';

export type UnitReport =
  | { readonly number: number; readonly end: 'rolled-out'; readonly groups: number; readonly ends?: BatchEnds }
  | {
      readonly number: number;
      readonly end: 'cancelled' | 'failed';
      readonly message: string;
      /** Begun again, it may succeed. */ readonly mendable?: Failure;
    };

export const unitEndedSignal = defineSignal<[UnitReport]>('unitEnded');

/** Some unit may have ended without a word. */
export const unitMissedSignal = defineSignal('unitMissed');
