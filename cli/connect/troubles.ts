/** Reports what blocks work: full disks, and work that waits too long. */

import type { Client } from '@temporalio/client';
import { type DiskTrouble, diskTroubles, runPlaces, stackPlaces } from '../../stack/disk-room.ts';
import { stackHome } from '../../connection/stack-paths.ts';
import type { VerbContext } from '../verb.ts';
import { findStalls } from '../../workers/watchdog/find-stalls.ts';
import { stallLines } from '../../workers/watchdog/stall.ts';

/** Polls of a follower per check: a check queries many workflows. */
const EVERY_POLLS = 30;

/** Reports each stall once for as long as it lasts. */
export class StallReporter {
  readonly #client: Client;
  readonly #run: string;
  readonly #say: (line: string) => void;
  #polls = 0;
  #shown = new Set<string>();

  /** `run`: as in `LonghaulRun`. */
  constructor(client: Client, run: string, say: (line: string) => void) {
    this.#client = client;
    this.#run = run;
    this.#say = say;
  }

  /** Call it with each poll. A server that does not answer is reported elsewhere. */
  async poll(): Promise<void> {
    this.#polls += 1;
    if (this.#polls % EVERY_POLLS !== 0) return;
    const stalls = await findStalls(this.#client, this.#run).catch(() => undefined);
    if (!stalls) return;
    const lines = stallLines(stalls);
    for (const [key, line] of lines) if (!this.#shown.has(key)) this.#say(line);
    this.#shown = new Set(lines.keys());
  }
}

/** Finds disks of this folder that cannot be written, and notes each at once. */
export async function reportDisks({ env, cwd, note }: VerbContext): Promise<readonly DiskTrouble[]> {
  const home = stackHome(env, cwd);
  const troubles = diskTroubles([...stackPlaces(home, env), ...(await runPlaces(home, env))]);
  for (const { line } of troubles) note(line);
  return troubles;
}

/** The line for a server that does not answer: the problem of its disk if it has one, else `line`. */
export function awayLine(line: string): string {
  return diskTroubles(stackPlaces(stackHome()))[0]?.line ?? line;
}
