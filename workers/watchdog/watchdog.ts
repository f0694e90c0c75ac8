/**
 * Looks every minute whether an open run is stuck, and says each new finding once: in the log, and to the run. It never
 * ends anything, and what it cannot look at it says too.
 */

import { Client } from '@temporalio/client';
import type { WorkerConnection } from '../../connection/temporal-connection.ts';
import { findStalls, openRuns, ownerOf } from './find-stalls.ts';
import { stallLines } from './stall.ts';
import { RunTeller } from './tell-run.ts';

const INTERVAL_MS = 60_000;
const ANSWERS_WITHIN_MS = 30_000;

/** What is to be read in the log, and the run that it is about. */
type Say = (line: string, run?: string) => void;

export interface Watchdog {
  /** Returns when the look under way, if any, is over. */
  stop(): Promise<void>;
}

/** What one worker's watchdog has said. */
class Teller {
  readonly #client: Client;
  readonly #runs: RunTeller;
  readonly #say: Say;
  readonly #answersWithinMs: number;
  /** By run: what was stuck there when it was looked at last. */
  readonly #said = new Map<string, ReadonlySet<string>>();
  /** What could not be looked at the last time. */
  #unseen = new Set<string>();

  constructor(client: Client, say: Say, answersWithinMs: number) {
    this.#client = client;
    this.#runs = new RunTeller(client);
    this.#say = say;
    this.#answersWithinMs = answersWithinMs;
  }

  /** Never fails: what cannot be looked at is said, and the next one is looked at. */
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
          `the watchdog could not look at ${what}: ${error instanceof Error ? error.message : String(error)}; what is stuck there is not told until it can`,
          run,
        );
    }
  }

  /** Every run has a deadline of its own: one that answers slowly hides no other. */
  #look(run: string): Promise<void> {
    return this.#client.withDeadline(Date.now() + this.#answersWithinMs, async () => {
      const lines = stallLines(await findStalls(this.#client, run));
      const said = this.#said.get(run);
      for (const [key, line] of lines) if (!said?.has(key)) this.#say(line, run);
      this.#said.set(run, new Set(lines.keys()));
      await this.#runs.tell(ownerOf(run), lines);
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
  const teller = new Teller(new Client({ connection, namespace }), say, answersWithinMs);
  let looking: Promise<void> | undefined;
  const round = () => teller.round().finally(() => (looking = undefined));
  const timer = setInterval(() => void (looking ??= round()), intervalMs);
  timer.unref();
  return {
    async stop() {
      clearInterval(timer);
      await looking;
    },
  };
}
