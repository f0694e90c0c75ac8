/** What a run carries over continue-as-new: small, and enough to go on from. */

import type { Trip } from '../../protocol/breaker.ts';
import type { RunFailuresState } from '../failures/run-failures.ts';
import type { PolicyRef } from '../../protocol/policy.ts';
import type { ConfigChange, RunConfig } from '../../protocol/run-config.ts';
import type { StepRecord } from '../../protocol/step-record.ts';
import type { PausePoint } from '../../protocol/train-status.ts';
import type { AdmissionState } from '../../protocol/admission.ts';
import type { StartedAgain } from './overlap/async-pipeline.ts';

export interface TrainProgress {
  readonly config: RunConfig;
  readonly runDir: string;
  /** Steps done. */
  readonly step: number;
  readonly policy: PolicyRef;
  readonly recent: readonly StepRecord[];
  readonly pauseAt: PausePoint | null;
  readonly tripped?: Trip | null;
  /** Absent: nothing has ended. */
  readonly failures?: RunFailuresState;
  /** Changes on record from before a restart, of steps that are still ahead. */
  readonly ahead?: readonly ConfigChange[];
  /** The last step that was on record when the run began: whoever started it again knows how those went. */
  readonly recorded?: number;
  /** Where rollouts and updates overlap: what has begun and is not trained on. */
  readonly overlap?: AdmissionState;
  /** Some unit may have ended without a word, and was not looked for yet; absent: none. */
  readonly missed?: boolean;
  /** The run starts from its records: what ran in `overlap` begins again. */
  readonly again?: StartedAgain;
}
