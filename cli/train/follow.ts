/**
 * Follows a run on the terminal until it ends: a line per step and evaluation, a bar for the current batch. It only
 * reads; interrupting it does not change the run.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { visible } from '../../reports/visible.ts';
import type { RunSummary } from '../../reports/run-summary.ts';
import type { BatchStatus } from '../../protocol/batch.ts';
import { tripLine } from '../../protocol/breaker.ts';
import type { TrainStatus } from '../../protocol/train-status.ts';
import { awayLine, StallReporter } from '../connect/troubles.ts';
import { whileAway } from '../../client/while-away.ts';
import { breakLine, fitLine } from '../terminal-text.ts';
import { RunHandle } from '../../client/run-handle.ts';
import { type BatchProgress, evaluationLines, evaluationName, progressBar, stepLine } from './format.ts';

const POLL_MS = 1000;
const ANSWERS_WITHIN_MS = 10_000;

export interface Screen {
  /** A line that stays. */
  line(text: string): void;
  /** The line that is overwritten. Prints nothing if there is no terminal. */
  bar(text: string): void;
}

/** Lines to `stream`; the bar only on a terminal. */
export function screenOn(stream: NodeJS.WriteStream): Screen {
  const clear = stream.isTTY ? '\r\u001b[2K' : '';
  const columns = (): number => stream.columns ?? 80;
  return {
    line: (text) =>
      void stream.write(`${clear}${stream.isTTY ? breakLine(visible(text), columns()) : visible(text)}\n`),
    // A line that wraps could not be overwritten.
    bar: (text) => void (stream.isTTY && stream.write(`${clear}${fitLine(visible(text), Math.max(1, columns() - 1))}`)),
  };
}

/** Rollouts of the current batch. Their total may grow, since the step may draw more. */
export async function progressOf(client: Client, run: string, { batch }: TrainStatus): Promise<BatchProgress> {
  const none = { started: 0, ended: 0, passed: 0, failed: 0 };
  if (!batch) return { ...none, total: 0 };
  try {
    return await client.workflow.getHandle(`train/${run}/${batch.name}`).query<BatchStatus>('status');
  } catch {
    return { ...none, total: batch.total };
  }
}

/** Remembers what was printed, so that nothing is printed twice. */
class StatusPrinter {
  #steps = 0;
  #evaluations = 0;
  #tripped = '';
  readonly #screen: Screen;

  constructor(screen: Screen) {
    this.#screen = screen;
  }

  /** Prints one line each time the circuit breaker opens. */
  warn({ tripped, run }: Pick<TrainStatus, 'tripped' | 'run'>): void {
    const line = tripped ? tripLine(tripped, run) : '';
    if (line !== '' && line !== this.#tripped) this.#screen.line(line);
    this.#tripped = line;
  }

  print(summary: RunSummary | undefined, steps = summary?.plannedSteps): void {
    if (!summary) return;
    const { all } = summary.evaluation;
    for (;;) {
      const evaluation = all[this.#evaluations];
      const step = summary.steps[this.#steps];
      if (evaluation && evaluation.step <= this.#steps) {
        for (const line of evaluationLines(evaluationName(evaluation.step), evaluation)) this.#screen.line(line);
        this.#evaluations += 1;
      } else if (step) {
        this.#screen.line(stepLine(step, steps));
        this.#steps += 1;
      } else return;
    }
  }
}

/**
 * Returns when the run has ended, also if it failed. Errors: `AbortError` if `signal` fires first.
 * `summary` reads the run's summary from the store.
 */
export async function followRun(
  client: Client,
  run: string,
  summary: () => Promise<RunSummary | undefined>,
  screen: Screen,
  signal: AbortSignal,
): Promise<void> {
  const handle = new RunHandle(client, run);
  const printer = new StatusPrinter(screen);
  const stalls = new StallReporter(client, run, (line) => screen.line(line));
  let steps: number | undefined;
  try {
    for (;;) {
      signal.throwIfAborted();
      const running = await whileAway(() => handle.isRunning(), {
        signal,
        onAway: (line) => screen.line(awayLine(line)),
      });
      const status = await handle.status(ANSWERS_WITHIN_MS).catch(() => undefined);
      steps = status?.steps ?? steps;
      printer.print(await summary(), steps);
      if (!running) break;
      if (status) printer.warn(status);
      if (status) screen.bar(progressBar(status, await progressOf(client, run, status)));
      await stalls.poll();
      await sleep(POLL_MS, undefined, { signal });
    }
  } finally {
    // Also after an interrupt, so that the next message starts on a line of its own.
    screen.bar('');
  }
}
