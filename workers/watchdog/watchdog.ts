/**
 * Checks every minute whether an open run is stuck, and reports each new finding once, in the log and to the run. It
 * also reports what it could not check. It never ends anything.
 */

import { Client } from '@temporalio/client';
import type { WorkerConnection } from '../../connection/temporal-connection.ts';
import { findStalls, openRuns, ownerOf } from './find-stalls.ts';
import { stallLines } from './stall.ts';
import { StallReporter } from './report-stalls.ts';

const INTERVAL_MS = 60_000;
const ANSWERS_WITHIN_MS = 30_000;

/** Writes a line to the log, with the run that it is about. */
type Say = (line: string, run?: string) => void;

export interface Watchdog {
  /** Returns when the current check, if any, has ended. */
  stop(): Promise<void>;
}

/** What one worker's watchdog has reported. */
class Watch {
  readonly #client: Client;
  readonly #runs: StallReporter;
  readonly #say: Say;
  readonly #answersWithinMs: number;
  /** By run: what was stuck at its last check. */
  readonly #said = new Map<string, ReadonlySet<string>>();
  /** What could not be checked in the last round. */
  #unseen = new Set<string>();

  constructor(client: Client, say: Say, answersWithinMs: number) {
    this.#client = client;
    this.#runs = new StallReporter(client);
    this.#say = say;
    this.#answersWithinMs = answersWithinMs;
  }

  /** Never throws: a run that cannot be checked is reported, and the next run is checked. */
  async round(): Promise<void> {
    const unseen = new Set<string>();
    await this.#tried('the list of open runs', unseen, async () => {
      const runs = await this.#client.withDeadline(Date.now() + this.#answersWithinMs, () => openRuns(this.#client));
      this.#keep(new Set(runs));
      for (const run of runs) await this.#tried(run, unseen, () => this.#look(run), run);
    });
    this.#unseen = unseen;
  }

  async #tried(what: string, unseen: Set<string>, work: () => Promise<void>, run?: string): Promise<void> {
    try {
      await work();
    } catch (error) {
      unseen.add(what);
      if (!this.#unseen.has(what))
        this.#say(
          `the watchdog could not check ${what}: ${error instanceof Error ? error.message : String(error)}; ` +
            'it reports nothing stuck there until a check succeeds',
          run,
        );
    }
  }

  /** Every run has its own deadline: a slow one does not hide the others. */
  #look(run: string): Promise<void> {
    return this.#client.withDeadline(Date.now() + this.#answersWithinMs, async () => {
      const lines = stallLines(await findStalls(this.#client, run));
      const said = this.#said.get(run);
      for (const [key, line] of lines) if (!said?.has(key)) this.#say(line, run);
      this.#said.set(run, new Set(lines.keys()));
      await this.#runs.report(ownerOf(run), lines);
    });
  }

  #keep(runs: ReadonlySet<string>): void {
    for (const run of this.#said.keys()) if (!runs.has(run)) this.#said.delete(run);
    this.#runs.keep(new Set([...runs].map(ownerOf)));
  }
}

export function startWatchdog(
  { connection, namespace }: Pick<WorkerConnection, 'connection' | 'namespace'>,
  say: Say,
  intervalMs = INTERVAL_MS,
  answersWithinMs = ANSWERS_WITHIN_MS,
): Watchdog {
  const watch = new Watch(new Client({ connection, namespace }), say, answersWithinMs);
  let looking: Promise<void> | undefined;
  const round = () => watch.round().finally(() => (looking = undefined));
  const timer = setInterval(() => void (looking ??= round()), intervalMs);
  timer.unref();
  return {
    async stop() {
      clearInterval(timer);
      await looking;
    },
  };
}
