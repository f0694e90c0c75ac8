/**
 * Images by reference: pulled once however many sandboxes ask, with progress and back-off. A registry that is busy or
 * away is tried again, with longer and longer pauses; a reference that it does not have is refused at once.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Readable } from 'node:stream';

import { SandboxImpossible, SandboxUnavailable } from '../sandbox.ts';
import { type Engine, statusOf, within } from './engine.ts';
import { DaemonRefused, followReports, type PullReport } from './progress.ts';

const TRIES = 5;
const FIRST_PAUSE_MS = 1_000;
/** Of the registry, passed on by the daemon in words or as a status. */
const NEVER = /manifest unknown|not found|access .*denied|unauthorized|authentication required|invalid reference|no matching manifest/iu;

export interface PullOptions {
  /** Hears layers done of all known, seldom more often than once a second. */
  readonly onProgress?: (line: string) => void;
  /** Milliseconds before the second try; doubled each time. */
  readonly pauseMs?: number;
}

/** `DaemonRefused` and HTTP errors of a pull: worth another try? */
export function isFinal(error: unknown): boolean {
  const status = statusOf(error);
  if (status === 400 || status === 401 || status === 403 || status === 404) return true;
  return (error instanceof DaemonRefused || status !== undefined) && error instanceof Error && NEVER.test(error.message);
}

function progressOf(image: string, say: (line: string) => void): (report: PullReport) => void {
  const done = new Map<string, boolean>();
  let last = 0;
  return ({ id, status }) => {
    if (id === undefined || status === undefined) return;
    if (/^(Pulling fs layer|Waiting|Downloading)/u.test(status)) done.set(id, false);
    if (/^(Pull complete|Already exists)/u.test(status)) done.set(id, true);
    const finished = [...done.values()].filter(Boolean).length;
    if (Date.now() - last < 1000 && finished < done.size) return;
    last = Date.now();
    say(`${image}: ${finished} of ${done.size} layers`);
  };
}

async function pullOnce(engine: Engine, image: string, options: PullOptions): Promise<void> {
  const stream = (await within(`pull ${image}`, engine.docker.pull(image))) as Readable;
  await followReports(stream, progressOf(image, options.onProgress ?? (() => undefined)));
}

/** Errors: `SandboxImpossible` when the registry has no such image for us, `SandboxUnavailable` after the last try. */
export async function pullImage(engine: Engine, image: string, options: PullOptions = {}): Promise<void> {
  let pause = options.pauseMs ?? FIRST_PAUSE_MS;
  for (let attempt = 1; ; attempt += 1) {
    try {
      await pullOnce(engine, image, options);
      return;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (isFinal(error)) throw new SandboxImpossible(`image ${image} cannot be pulled: ${reason}`);
      if (attempt === TRIES) throw new SandboxUnavailable(`image ${image} could not be pulled in ${TRIES} tries: ${reason}`);
      options.onProgress?.(`${image}: try ${attempt} failed (${reason}); again in ${pause / 1000} s`);
      await sleep(pause);
      pause *= 2;
    }
  }
}
