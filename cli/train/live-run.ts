/** The live state of a run: its own status, and what is stuck in it. */

import { type Client, ServiceError, WorkflowNotFoundError } from '@temporalio/client';
import { findStalls } from '../../workers/watchdog/find-stalls.ts';
import { type Stall, stallLines } from '../../workers/watchdog/stall.ts';
import type { TrainStatus } from '../../protocol/train-status.ts';
import { RunHandle } from '../../client/run-handle.ts';
import { progressOf } from './follow.ts';
import { type BatchProgress, liveLines } from './format.ts';

/** `status` and `rollouts` are the run's own answers; absent if its workflow code fails. */
export interface Live {
  readonly status?: TrainStatus;
  readonly rollouts?: BatchProgress;
  readonly stalls: readonly Stall[];
}

export const ANSWERS_WITHIN_MS = 10_000;

/** Errors: that of Temporal's client, within 10 s, if the run does not answer and nothing stuck is found. */
export function askLive(client: Client, run: string): Promise<Live> {
  return client.withDeadline(Date.now() + ANSWERS_WITHIN_MS, async () => {
    const [stalls, status] = await Promise.allSettled([
      findStalls(client, run),
      new RunHandle(client, run).status(ANSWERS_WITHIN_MS),
    ]);
    const found = stalls.status === 'fulfilled' ? stalls.value : [];
    if (status.status === 'fulfilled')
      return { status: status.value, rollouts: await progressOf(client, run, status.value), stalls: found };
    if (found.length > 0) return { stalls: found };
    throw stalls.status === 'rejected' ? stalls.reason : status.reason;
  });
}

/** Status codes of gRPC. */
const [DEADLINE_EXCEEDED, UNAVAILABLE] = [4, 14];

/** Why nothing answered, with the remedy: only a server that cannot be reached needs to be started. */
export function whyUnanswered(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code } = ((error instanceof ServiceError ? error.cause : undefined) as { readonly code?: unknown }) ?? {};
  if (code === DEADLINE_EXCEEDED)
    return `no answer within ${ANSWERS_WITHIN_MS / 1000} s; check the processes with: npx longhaul ps`;
  return code === UNAVAILABLE ? `${error.message}; start the stack: npx longhaul up --detach` : error.message;
}

/** Why `askLive` failed. */
export function whyUnknown(run: string, error: unknown): string {
  if (error instanceof WorkflowNotFoundError)
    return (
      `Temporal has no workflow train/${run}: it was started on another server, or its history is gone. ` +
      'Resume it from its records with: npx longhaul train CONFIG'
    );
  return whyUnanswered(error);
}

export function linesOfLive({ status, rollouts, stalls }: Live): string[] {
  return [...(status && rollouts ? liveLines(status, rollouts) : []), ...stallLines(stalls).values()];
}
