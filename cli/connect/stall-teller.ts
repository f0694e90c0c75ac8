/** Says what a run or an eval waits for too long, to whoever follows it: each finding once, for as long as it is so. */

import type { Client } from '@temporalio/client';
import { findStalls } from '../../workers/watchdog/find-stalls.ts';
import { stallLines } from '../../workers/watchdog/stall.ts';

/** A look asks about many workflows: every so many polls of a follower. */
const EVERY_POLLS = 30;

export class StallTeller {
  readonly #client: Client;
  readonly #run: string;
  readonly #say: (line: string) => void;
  #polls = 0;
  #told = new Set<string>();

  /** `run`: as in `LonghaulRun`. */
  constructor(client: Client, run: string, say: (line: string) => void) {
    this.#client = client;
    this.#run = run;
    this.#say = say;
  }

  /** To be called with each poll. A server that does not answer is told of elsewhere. */
  async poll(): Promise<void> {
    this.#polls += 1;
    if (this.#polls % EVERY_POLLS !== 0) return;
    const stalls = await findStalls(this.#client, this.#run).catch(() => undefined);
    if (!stalls) return;
    const lines = stallLines(stalls);
    for (const [key, line] of lines) if (!this.#told.has(key)) this.#say(line);
    this.#told = new Set(lines.keys());
  }
}
