/**
 * Brings a server to a version before it is sampled from: it is looked at, pushed to and looked at again, until it says
 * itself that it has the version. One push at a time goes from this process to a server.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { EndpointError } from '../endpoint-error.ts';
import type { Checkpoint } from './checkpoint.ts';
import { type PushedWeights, SamplerBehind } from './pushed-weights.ts';
import type { SamplerServer } from './sampler-server.ts';

const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 5000;

export interface Patience {
  readonly seconds: number;
  /** By `Date.now()`. */
  readonly until: number;
}

export const patienceOf = (seconds: number): Patience => ({ seconds, until: Date.now() + seconds * 1000 });

/** A busy server answers 503 while its weights change: it is there, and behind. */
export const isBusy = (error: unknown): error is EndpointError =>
  error instanceof EndpointError && error.status === 503;

/** Waits before the try `tries` + 1. False, at once, after the deadline. Errors: the reason of `signal`. */
export async function waitInPatience({ until }: Patience, tries: number, signal: AbortSignal): Promise<boolean> {
  const left = until - Date.now();
  if (left <= 0) return false;
  await sleep(Math.min(left, LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** Math.min(tries, 10)), undefined, { signal });
  return true;
}

/** Waits before the try `tries` + 1. Errors: `SamplerBehind` after the deadline; the reason of `signal`. */
export async function waitTurn(
  server: SamplerServer,
  { label }: Checkpoint,
  patience: Patience,
  tries: number,
  last: string,
  signal: AbortSignal,
): Promise<void> {
  if (await waitInPatience(patience, tries, signal)) return;
  throw new SamplerBehind(
    `${server.address} did not have ${label} within ${patience.seconds} s (${last}): ` +
      'check whether it can read the checkpoint and has its routes to change weights, or raise patience',
  );
}

/** The end of the last push of each server, which the next one waits for. */
const pushes = new Map<string, Promise<unknown>>();

async function inTurn<T>({ address }: SamplerServer, work: () => Promise<T>): Promise<T> {
  const before = pushes.get(address) ?? Promise.resolve();
  const own = before.then(work, work);
  pushes.set(address, own);
  own.catch(() => undefined);
  return own.finally(() => {
    if (pushes.get(address) === own) pushes.delete(address);
  });
}

/**
 * Returns when the server has the checkpoint. A push of somebody else is waited for; half of the patience without its
 * end means that its process was killed, and the weights are pushed again.
 *
 * Errors: `SamplerBehind`, `SamplerAhead`; `EndpointError` of the server.
 */
export function holdVersion(
  weights: PushedWeights,
  server: SamplerServer,
  checkpoint: Checkpoint,
  patience: Patience,
  signal: AbortSignal,
): Promise<void> {
  return inTurn(server, async () => {
    let seen: { readonly mark: string; readonly at: number } | undefined;
    for (let tries = 0; ; tries += 1) {
      let last: string;
      try {
        const state = await weights.look(server, checkpoint, signal);
        if (state.is === 'ready') return;
        last = state.is === 'behind' ? `it has ${state.has}` : `it has been ${state.mark}`;
        if (state.is === 'loading' && state.mark !== seen?.mark) seen = { mark: state.mark, at: Date.now() };
        const isOver = seen !== undefined && Date.now() - seen.at > (patience.seconds * 1000) / 2;
        if (state.is === 'behind' || isOver) {
          await weights.push(server, checkpoint, signal);
          if ((await weights.look(server, checkpoint, signal)).is === 'ready') return;
        }
      } catch (error) {
        if (!isBusy(error)) throw error;
        last = error.message;
      }
      await waitTurn(server, checkpoint, patience, tries, last, signal);
    }
  });
}
