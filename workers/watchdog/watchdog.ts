/** Looks every minute whether an open run is stuck, and says each new finding once in the log. It never ends anything. */

import { Client } from '@temporalio/client';
import type { WorkerConnection } from '../temporal-connection.ts';
import { findStalls, openRuns } from './find-stalls.ts';
import { stallLines } from './stall.ts';

const INTERVAL_MS = 60_000;
const ANSWERS_WITHIN_MS = 30_000;

export interface Watchdog {
  /** Returns when the look under way, if any, is over. */
  stop(): Promise<void>;
}

/** Lines by run and by what is stuck: a count that changes is no news. */
async function look(client: Client): Promise<Map<string, string>> {
  const lines = new Map<string, string>();
  for (const run of await openRuns(client)) {
    for (const [key, line] of stallLines(await findStalls(client, run))) lines.set(`${run} ${key}`, line);
  }
  return lines;
}

export function startWatchdog(
  { connection, namespace }: Pick<WorkerConnection, 'connection' | 'namespace'>,
  say: (line: string) => void,
  intervalMs = INTERVAL_MS,
): Watchdog {
  const client = new Client({ connection, namespace });
  let said = new Set<string>();
  let looking: Promise<void> | undefined;
  const round = async (): Promise<void> => {
    try {
      const lines = await client.withDeadline(Date.now() + ANSWERS_WITHIN_MS, () => look(client));
      for (const [key, line] of lines) if (!said.has(key)) say(line);
      said = new Set(lines.keys());
    } catch {
      // A server that does not answer is told of by the workers' own connections.
    } finally {
      looking = undefined;
    }
  };
  const timer = setInterval(() => void (looking ??= round()), intervalMs);
  timer.unref();
  return {
    async stop() {
      clearInterval(timer);
      await looking;
    },
  };
}
