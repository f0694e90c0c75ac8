/**
 * Pulls images by reference, with the user's credentials, progress and back-off. If a registry does not answer, the
 * pull is retried with growing pauses. If it limits requests, the pull waits longer. If it lacks the image, the pull
 * fails at once.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Readable } from 'node:stream';

import { SandboxImpossible, SandboxUnavailable } from '../../sandbox.ts';
import { type Engine, statusOf, within } from '../engine.ts';
import { credentialsFor, registryOf, type RegistryAuth } from './credentials.ts';
import { DaemonRefused, followReports, type PullReport } from './progress.ts';

const TRIES = 5;
const FIRST_PAUSE_MS = 1_000;
/**
 * For a registry that limits requests, as multiples of the first pause: the longest pause, and their sum (ten minutes).
 */
const LONGEST_PAUSE = 60;
const BUSY_PAUSES = 600;
/** Errors of the registry, which the daemon passes on in its message. */
const NEVER =
  /manifest unknown|not found|(?<!permission )\bdenied\b|403 Forbidden|unauthorized|authentication required|no basic auth|invalid reference|no matching manifest/iu;
const BUSY = /toomanyrequests|too many requests|rate limit|\b429\b/iu;
const REFUSES_US = /denied|403 Forbidden|unauthorized|authentication required|no basic auth/iu;

export interface PullOptions {
  /** Receives the number of finished layers and of all known ones, about once a second. */
  readonly onProgress?: (line: string) => void;
  /** Milliseconds before the second attempt; doubled each time. */
  readonly pauseMs?: number;
  /** Environment that locates Docker's configuration (`DOCKER_CONFIG`, `HOME`). Default: this process's. */
  readonly env?: NodeJS.ProcessEnv;
}

/** Time limits of a caller that has an alternative if a registry does not answer. Default: the daemon's own limits. */
export interface PullLimits {
  readonly answerMs: number;
  readonly silentMs: number;
}

/** True if another attempt of the pull cannot succeed. */
export function isFinal(error: unknown): boolean {
  const status = statusOf(error);
  if (isBusy(error)) return false;
  if (status === 400 || status === 401 || status === 403 || status === 404) return true;
  return (
    (error instanceof DaemonRefused || status !== undefined) && error instanceof Error && NEVER.test(error.message)
  );
}

/** True if the registry answers, but limits requests for now. Such limits are per hour. */
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
    // A public image can still be pulled.
    onProgress?.(error instanceof Error ? error.message : String(error));
    return undefined;
  }
}

function refusesUs(error: unknown): boolean {
  const status = statusOf(error);
  return isFinal(error) && (status === 401 || status === 403 || REFUSES_US.test(reasonOf(error)));
}

/**
 * Calls `ask` with the user's credentials, and once without if those are rejected: an expired login must not prevent
 * the pull of a public image. Errors: those of `ask`; of two rejections the first, since the user can fix the login.
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
      `${image}: ${registryOf(image)} rejects the credentials of docker login (${reasonOf(refused)}); ` +
        'retrying without them',
    );
    return await ask(undefined).catch((error: unknown) => {
      throw isFinal(error) ? refused : error;
    });
  }
}

/** Makes one attempt. Errors: the daemon's, unchanged; `SandboxUnavailable` if it or the registry does not answer. */
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
    // The daemon cancels a pull whose client is gone.
    given.abort();
    asked.catch(() => undefined);
    throw error;
  }
}

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** The error for a pull that can never succeed. */
export function refusedPull(image: string, error: unknown): SandboxImpossible {
  const reason = reasonOf(error);
  const remedy = refusesUs(error)
    ? `; log in where the init worker runs (docker login ${registryOf(image)}), or set another image`
    : '';
  return new SandboxImpossible(`image ${image} cannot be pulled: ${reason}${remedy}`);
}

/**
 * Errors: `SandboxImpossible` if the registry does not provide the image, `SandboxUnavailable` after the last attempt.
 */
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
        throw new SandboxUnavailable(`image ${image} could not be pulled in ${TRIES} attempts: ${reasonOf(error)}`);
      if (busy && waited + pause > BUSY_PAUSES * first)
        throw new SandboxUnavailable(
          `image ${image}: its registry limited requests for ${Math.round(waited / 1000)} s: ${reasonOf(error)}`,
        );
      options.onProgress?.(
        `${image}: ${busy ? 'the registry limits requests' : `attempt ${failures} failed`} ` +
          `(${reasonOf(error)}); next attempt in ${pause / 1000} s`,
      );
      await sleep(pause);
      waited += pause;
      pause = Math.min(2 * pause, LONGEST_PAUSE * first);
    }
  }
}
