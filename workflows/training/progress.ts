/** What a run carries over continue-as-new: small, and enough to continue from. */

import type { Trip } from '../../protocol/breaker.ts';
import type { RunFailuresState } from '../failures/run-failures.ts';
import type { PolicyRef } from '../../protocol/policy.ts';
import type { ConfigChange, OpenedConfig } from '../../protocol/run-config.ts';
import type { StepRecord } from '../../protocol/step-record.ts';
import type { PausePoint } from '../../protocol/train-status.ts';
import type { AdmissionState } from '../../protocol/admission.ts';
import type { StartedAgain } from './overlap/async-pipeline.ts';

export interface TrainProgress {
  readonly config: OpenedConfig;
  readonly runDir: string;
  /** Number of finished steps. */
  readonly step: number;
  readonly policy: PolicyRef;
  readonly recent: readonly StepRecord[];
  readonly pauseAt: PausePoint | null;
  readonly tripped?: Trip | null;
  /** Absent: no rollout has ended. */
  readonly failures?: RunFailuresState;
  /** Changes recorded before a restart, of later steps. */
  readonly ahead?: readonly ConfigChange[];
  /**
   * The last step that was recorded when the run started: the client that restarted it knows how the steps up to it
   * went.
   */
  readonly recorded?: number;
  /** Milliseconds in which the run was not paused. Absent: it starts. */
  readonly workedMs?: number;
  /** If rollouts and updates overlap: the units that have started and are not trained on. */
  readonly overlap?: AdmissionState;
  /** True if a unit may have ended without a report and was not checked yet. */
  readonly missed?: boolean;
  /** Present if the run starts from its records: what ran in `overlap` is started again. */
  readonly again?: StartedAgain;
}
