/** Follows an eval on the terminal until it ends: a line per cell, a bar for the current batch. It only reads. */

import { setTimeout as sleep } from 'node:timers/promises';
import { tripLine } from '../../protocol/breaker.ts';
import { StallReporter, awayLine } from '../connect/troubles.ts';
import { whileAway } from '../../client/while-away.ts';
import type { BatchStatus } from '../../protocol/batch.ts';
import type { SweepStatus } from '../../protocol/eval.ts';
import type { Longhaul } from '../../client/longhaul.ts';
import type { Screen } from '../train/follow.ts';
import { barText } from '../train/format.ts';
import { cellLine } from './format.ts';

const POLL_MS = 1000;
const ANSWERS_WITHIN_MS = 10_000;

async function barOf({ phase, cell, batch, done, cells }: SweepStatus, { client }: Longhaul): Promise<string> {
  const none = { ended: 0, total: 0 };
  const ask = async () => (batch === null ? none : client.workflow.getHandle(batch).query<BatchStatus>('status'));
  const { ended, total } = await ask().catch(() => none);
  return barText(
    ended,
    total,
    `${cell?.name ?? 'starting'} ${ended}/${total} · ${phase} · cell ${Math.min(done.length + 1, cells)} of ${cells}`,
  );
}

/** Returns when the eval has ended, also if it failed. Errors: `AbortError` if `signal` fires first. */
export async function followEval(longhaul: Longhaul, id: string, screen: Screen, signal: AbortSignal): Promise<void> {
  const handle = longhaul.evaluation(id);
  const stalls = new StallReporter(longhaul.client, `eval/${id}`, (line) => screen.line(line));
  let shown = 0;
  let why = '';
  try {
    for (;;) {
      signal.throwIfAborted();
      const running = await whileAway(() => handle.isRunning(), {
        signal,
        onAway: (line) => screen.line(awayLine(line)),
      });
      // A query needs a worker; while it restarts, there is no status.
      const status = await handle.status(ANSWERS_WITHIN_MS).catch(() => undefined);
      for (const cell of status?.done.slice(shown) ?? []) screen.line(cellLine(cell));
      shown = Math.max(shown, status?.done.length ?? 0);
      const held = status?.tripped ? tripLine(status.tripped, `eval/${id}`) : '';
      if (status && held !== '' && held !== why) screen.line(held);
      if (status) why = held;
      if (!running) break;
      if (status) screen.bar(await barOf(status, longhaul));
      await stalls.poll();
      await sleep(POLL_MS, undefined, { signal });
    }
  } finally {
    screen.bar('');
  }
}
