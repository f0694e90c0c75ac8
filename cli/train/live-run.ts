/** What can be told of a run that goes on: by itself, and by what is stuck in it. */

import type { Client } from '@temporalio/client';
import { findStalls } from '../../workers/watchdog/find-stalls.ts';
import { type Stall, stallLines } from '../../workers/watchdog/stall.ts';
import type { TrainStatus } from '../../workflows/messages/train-status.ts';
import { RunHandle } from '../run-handle.ts';
import { progressOf } from './follow.ts';
import { type BatchProgress, liveLines } from './format.ts';

/** `status` and `rollouts` are what the run itself says; absent where its own code fails and it cannot. */
export interface Live {
  readonly status?: TrainStatus;
  readonly rollouts?: BatchProgress;
  readonly stalls: readonly Stall[];
}

/** Nothing where neither the run nor anything stuck in it says a word. */
export async function askLive(client: Client, run: string): Promise<Live | undefined> {
  const stalls = await findStalls(client, run).catch(() => []);
  const status = await new RunHandle(client, run).status().catch(() => undefined);
  if (status) return { status, rollouts: await progressOf(client, run, status), stalls };
  return stalls.length > 0 ? { stalls } : undefined;
}

export function linesOfLive({ status, rollouts, stalls }: Live): string[] {
  return [...(status && rollouts ? liveLines(status, rollouts) : []), ...stallLines(stalls).values()];
}
