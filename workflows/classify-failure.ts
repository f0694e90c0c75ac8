/** From what an activity's last attempt failed with to the class of a rollout's failure. */

import { ActivityFailure, ApplicationFailure, rootCause, TimeoutFailure } from '@temporalio/workflow';
import type { FailureClass } from '../agents/finish-reason.ts';

const CLASSES: Readonly<Record<string, FailureClass>> = {
  SandboxLost: 'sandbox-lost',
  SandboxUnavailable: 'sandbox-unavailable',
  SandboxImpossible: 'sandbox-unavailable',
  EngineLost: 'engine-lost',
  EndpointUnavailable: 'endpoint-unavailable',
  GraderFailed: 'grader-failed',
  CheckpointTorn: 'checkpoint-torn',
  StoreFull: 'store-unavailable',
  StoreReadOnly: 'store-unavailable',
  StoreCorrupt: 'store-unavailable',
  UserInputError: 'bad-input',
};

/**
 * Sorts an activity's final failure by its class name, and a deadline that passed by its stage.
 * Errors: what is no activity's failure is thrown on.
 */
export function classify(error: unknown): { failure: FailureClass; message: string } {
  if (!(error instanceof ActivityFailure)) throw error;
  const message = (rootCause(error) ?? error.message).slice(0, 300);
  if (error.cause instanceof ApplicationFailure) {
    return { failure: CLASSES[error.cause.type ?? ''] ?? 'internal', message };
  }
  if (error.cause instanceof TimeoutFailure) {
    const hostGone = error.cause.timeoutType === 'SCHEDULE_TO_START';
    return { failure: hostGone ? 'sandbox-lost' : 'deadline', message };
  }
  return { failure: 'internal', message };
}
