/**
 * Images by reference: pulled once however many sandboxes ask, with our credentials, progress and back-off. A registry
 * that is away is tried again with longer and longer pauses, one that lets nobody in for now is waited for; a reference
 * that it does not have is refused at once.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Readable } from 'node:stream';

import { SandboxImpossible, SandboxUnavailable } from '../../sandbox.ts';
import { type Engine, statusOf, within } from '../engine.ts';
import { credentialsFor, registryOf, type RegistryAuth } from './credentials.ts';
import { DaemonRefused, followReports, type PullReport } from './progress.ts';

const TRIES = 5;
const FIRST_PAUSE_MS = 1_000;
/** Of a registry that counts what it is asked, in first pauses: the longest one, and all of them (ten minutes). */
const LONGEST_PAUSE = 60;
const BUSY_PAUSES = 600;
/** Of the registry, passed on by the daemon in words or as a status. */
const NEVER =
  /manifest unknown|not found|(?<!permission )\bdenied\b|403 Forbidden|unauthorized|authentication required|no basic auth|invalid reference|no matching manifest/iu;
const BUSY = /toomanyrequests|too many requests|rate limit|\b429\b/iu;
const REFUSES_US = /denied|403 Forbidden|unauthorized|authentication required|no basic auth/iu;

export interface PullOptions {
  /** Hears layers done of all known, seldom more often than once a second. */
  readonly onProgress?: (line: string) => void;
  /** Milliseconds before the second try; doubled each time. */
  readonly pauseMs?: number;
  /** Says where Docker's configuration is (`DOCKER_CONFIG`, `HOME`); default: this process's. */
  readonly env?: NodeJS.ProcessEnv;
}

/** For who has something else to do where a registry does not answer; default: the daemon's own patience. */
export interface PullLimits {
  readonly answerMs: number;
  readonly silentMs: number;
}

/** `DaemonRefused` and HTTP errors of a pull: worth another try? */
export function isFinal(error: unknown): boolean {
  const status = statusOf(error);
  if (isBusy(error)) return false;
  if (status === 400 || status === 401 || status === 403 || status === 404) return true;
  return (
    (error instanceof DaemonRefused || status !== undefined) && error instanceof Error && NEVER.test(error.message)
  );
}

/** The registry answers, and lets nobody in for now: it counts requests, by hours. */
export function isBusy(error: unknown): boolean {
  return (
    statusOf(error) === 429 ||
    ((error instanceof DaemonRefused || statusOf(error) !== undefined) &&
      error instanceof Error &&
      BUSY.test(error.message))
  );
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

async function authOf(
  image: string,
  { env = process.env, onProgress }: PullOptions,
): Promise<RegistryAuth | undefined> {
  try {
    return await credentialsFor(image, env);
  } catch (error) {
    // An image that is for everybody can be had all the same.
    onProgress?.(error instanceof Error ? error.message : String(error));
    return undefined;
  }
}

function refusesUs(error: unknown): boolean {
  const status = statusOf(error);
  return isFinal(error) && (status === 401 || status === 403 || REFUSES_US.test(reasonOf(error)));
}

/**
 * `ask` with our credentials, and once without where those are refused: a login that has expired keeps nobody from an
 * image that is for everybody. Errors: those of `ask`; of two refusals the first, which the user can do something about.
 */
export async function asUsOrAnybody<T>(
  image: string,
  options: PullOptions,
  ask: (auth: RegistryAuth | undefined) => Promise<T>,
): Promise<T> {
  const auth = await authOf(image, options);
  if (auth === undefined) return ask(undefined);
  try {
    return await ask(auth);
  } catch (refused) {
    if (!refusesUs(refused)) throw refused;
    options.onProgress?.(
      `${image}: ${registryOf(image)} refuses our login (${reasonOf(refused)}); it is asked once without`,
    );
    return await ask(undefined).catch((error: unknown) => {
      throw isFinal(error) ? refused : error;
    });
  }
}

/** One try. Errors: the daemon's, as they are; `SandboxUnavailable` where it or the registry does not answer. */
export function pullOnce(engine: Engine, image: string, options: PullOptions = {}, limits?: PullLimits): Promise<void> {
  return asUsOrAnybody(image, options, (auth) => pullAs(auth, engine, image, options, limits));
}

async function pullAs(
  authconfig: RegistryAuth | undefined,
  engine: Engine,
  image: string,
  options: PullOptions,
  limits?: PullLimits,
): Promise<void> {
  const given = new AbortController();
  const asked = engine.docker.pull(image, {
    abortSignal: given.signal,
    ...(authconfig === undefined ? {} : { authconfig }),
  });
  try {
    const stream = (await within(`pull ${image}`, asked, limits?.answerMs)) as Readable;
    await followReports(stream, progressOf(image, options.onProgress ?? (() => undefined)), limits?.silentMs);
  } catch (error) {
    // The daemon ends what nobody waits for.
    given.abort();
    asked.catch(() => undefined);
    throw error;
  }
}

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** What to tell of a pull that can never succeed. */
export function refusedPull(image: string, error: unknown): SandboxImpossible {
  const reason = reasonOf(error);
  const remedy = refusesUs(error)
    ? `; log in where the init worker runs (docker login ${registryOf(image)}), or name another image`
    : '';
  return new SandboxImpossible(`image ${image} cannot be pulled: ${reason}${remedy}`);
}

/** Errors: `SandboxImpossible` when the registry has no such image for us, `SandboxUnavailable` after the last try. */
export async function pullImage(engine: Engine, image: string, options: PullOptions = {}): Promise<void> {
  const first = options.pauseMs ?? FIRST_PAUSE_MS;
  let [pause, waited, failures] = [first, 0, 0];
  for (;;) {
    try {
      await pullOnce(engine, image, options);
      return;
    } catch (error) {
      if (isFinal(error)) throw refusedPull(image, error);
      const busy = isBusy(error);
      if (!busy) failures += 1;
      if (failures === TRIES)
        throw new SandboxUnavailable(`image ${image} could not be pulled in ${TRIES} tries: ${reasonOf(error)}`);
      if (busy && waited + pause > BUSY_PAUSES * first)
        throw new SandboxUnavailable(
          `image ${image}: its registry let nobody in for ${Math.round(waited / 1000)} s: ${reasonOf(error)}`,
        );
      options.onProgress?.(
        `${image}: ${busy ? 'the registry lets nobody in' : `try ${failures} failed`} (${reasonOf(error)}); again in ${pause / 1000} s`,
      );
      await sleep(pause);
      waited += pause;
      pause = Math.min(2 * pause, LONGEST_PAUSE * first);
    }
  }
}
