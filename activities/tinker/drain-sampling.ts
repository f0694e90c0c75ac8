/**
 * Runs the samples of all adapters of one base, many at once, each tenant's in turn. A sample has no state: it may run
 * again, and gives the same tokens. One that may end its worker runs alone, until it has a result or is given up.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { TinkerResult } from '../../protocol/tinker.ts';
import { laneName, type DrainOutcome } from '../../protocol/tinker-lanes.ts';
import { classifyDiskError, isTransient } from '../../store/disk-errors.ts';
import { LaneLost, type BegunWork, type LaneHold, type WaitingSample } from '../../store/tinker/work.ts';
import { type DrainDeps, failed, isEngineLost, quarantined, within } from './drain-model.ts';
import { withLane } from './keep-hold.ts';
import { SampleShares } from './sample-shares.ts';
import { isUsersFault, type TinkerEngine } from './tinker-engine.ts';

export interface SamplingDeps extends Omit<DrainDeps, 'residents' | 'turns'> {
  readonly engine: TinkerEngine;
}

/** Samples that are read at once of tenants with less than their share, while others fill the engine. */
const NEWCOMERS = 32;

class SamplingDrain {
  readonly #deps: SamplingDeps;
  readonly #hold: LaneHold;
  readonly #signal: AbortSignal;
  readonly #base: string;
  readonly #running = new Map<string, Promise<void>>();
  readonly #shares: SampleShares;
  /** Some wait that have no room until others end. */
  #isCrowded = false;
  /** Tenants that have their share, until a sample ends. */
  readonly #full = new Set<string>();
  /** Requests that run alone. */
  readonly #suspects = new Set<string>();
  #failure: unknown;
  /** The execution ends: what is under way stops. */
  readonly #over = new AbortController();

  constructor(deps: SamplingDeps, hold: LaneHold, signal: AbortSignal, base: string) {
    this.#deps = deps;
    this.#hold = hold;
    this.#signal = signal;
    this.#base = base;
    this.#shares = new SampleShares(deps.limits.samples);
  }

  async run(): Promise<DrainOutcome> {
    const { journal, limits } = this.#deps;
    const until = performance.now() + limits.sliceMs;
    let worked = performance.now();
    while (!this.#signal.aborted && this.#failure === undefined) {
      // Others' samples start as long as some are under way: to wait for the longest of all would keep them out. At the
      // second end these are stopped; the next execution makes them again, with the same tokens.
      const now = performance.now();
      if (now >= until && (this.#running.size === 0 || now >= until + limits.sliceMs)) break;
      const started = await this.#startSome();
      if (started > 0 || this.#running.size > 0) worked = performance.now();
      const left = worked + limits.idleMs - performance.now();
      if (left <= 0 && this.#suspects.size === 0 && (await journal.leave(this.#hold))) return { end: 'idle' };
      const end = now < until ? until : until + limits.sliceMs;
      await this.#untilChange(Math.max(1, Math.min(left, end - performance.now())));
    }
    this.#over.abort();
    await Promise.allSettled(this.#running.values());
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#signal.reason instanceof LaneLost) throw this.#signal.reason;
    return { end: 'more' };
  }

  /** Until a sample ends, or a new one may start. */
  async #untilChange(milliseconds: number): Promise<void> {
    const running = [...this.#running.values()];
    const enough = new AbortController();
    const except = [...this.#running.keys(), ...this.#suspects];
    const news = this.#deps.journal.untilWork(
      { base: this.#base, except, served: this.#served },
      milliseconds,
      AbortSignal.any([this.#signal, enough.signal]),
    );
    const late = sleep(milliseconds, undefined, { signal: enough.signal }).catch(() => undefined);
    const waits = this.#isCrowded && running.length > 0 ? [...running, late] : [...running, news];
    await Promise.race(waits).finally(() => enough.abort());
  }

  /** Starts as many as there is room for. Returns how many. */
  async #startSome(): Promise<number> {
    const { journal, limits } = this.#deps;
    const [suspect] = this.#suspects;
    this.#isCrowded = suspect === undefined ? this.#shares.isOverfull : this.#running.size > 0;
    if (this.#isCrowded) return 0;
    const except = [...this.#running.keys()];
    // Bodies are read of those that may start alone.
    const limit = suspect === undefined ? this.#shares.room || NEWCOMERS : 1_000;
    const found = await journal.waitingSamples(this.#base, limit, except, this.#served);
    const samples =
      suspect === undefined ? this.#choose(found) : found.filter(({ requestId }) => requestId === suspect);
    this.#suspects.delete(suspect ?? '');
    // Nothing to note: a transaction would lock the server out for a moment.
    if (samples.length === 0) return 0;
    const begun = await journal.begin(
      this.#hold,
      samples.map(({ requestId }) => requestId),
    );
    let started = 0;
    for (const [i, sample] of samples.entries()) {
      const one = begun[i];
      if (one === undefined) continue;
      if (one.lost >= limits.suspect && suspect === undefined) {
        await journal.endExecution(one.execution, 'forgotten');
        this.#suspects.add(sample.requestId);
        continue;
      }
      this.#start(sample, one);
      started += 1;
    }
    return started;
  }

  #choose(found: readonly WaitingSample[]): readonly WaitingSample[] {
    const { chosen, full, isCrowded } = this.#shares.choose(found);
    this.#isCrowded = isCrowded;
    for (const tenant of full) this.#full.add(tenant);
    return chosen;
  }

  /** Tenants whose waiting samples start nothing now. */
  get #served(): readonly string[] {
    return [...new Set([...this.#shares.served, ...this.#full])];
  }

  #start(sample: WaitingSample, begun: BegunWork): void {
    this.#shares.started(sample);
    const running = this.#finish(sample, begun)
      .catch((error: unknown) => {
        this.#failure ??= error;
      })
      .finally(() => {
        this.#shares.ended(sample);
        this.#full.clear();
        this.#running.delete(sample.requestId);
      });
    this.#running.set(sample.requestId, running);
  }

  /** Errors: `LaneLost`; a lost engine. */
  async #finish(sample: WaitingSample, begun: BegunWork): Promise<void> {
    const { journal, limits } = this.#deps;
    const { requestId } = sample;
    if (begun.lost >= limits.lost) {
      await journal.finishIn(this.#hold, { requestId, result: quarantined(begun.lost) });
      return;
    }
    try {
      const result = await this.#result(sample);
      await journal.finishIn(this.#hold, { requestId, result });
    } catch (thrown) {
      await this.#hasFailed(requestId, thrown, begun);
    }
  }

  async #hasFailed(requestId: string, thrown: unknown, begun: BegunWork): Promise<void> {
    const { journal, limits, say } = this.#deps;
    const error = classifyDiskError(thrown, journal.dir);
    if (error instanceof LaneLost || isEngineLost(error)) throw error;
    if (this.#signal.aborted || this.#over.signal.aborted) return journal.endExecution(begun.execution, 'forgotten');
    const message = error instanceof Error ? error.message : String(error);
    if (isUsersFault(error)) {
      await journal.finishIn(this.#hold, { requestId, result: failed('user', message) });
      return;
    }
    say(`a sample of ${this.#base} failed: ${message}`);
    const counts = !isTransient(error);
    await journal.endExecution(begun.execution, counts ? 'failed' : 'forgotten');
    if (counts && begun.failed + 1 >= limits.failures)
      await journal.finishIn(this.#hold, { requestId, result: failed('server', message) });
    else await sleep(limits.pauseMs, undefined, { signal: this.#signal }).catch(() => undefined);
  }

  /** Errors: those of the engine. */
  async #result({ operation, adapter }: WaitingSample): Promise<TinkerResult> {
    const { journal, engine, limits } = this.#deps;
    if (operation.kind !== 'sample') return failed('user', `${operation.kind} is not an operation of a sampler`);
    const baseDir = await journal.baseDir(this.#base);
    if (baseDir === undefined) throw new Error(`the server has not said where the base model ${this.#base} is`);
    const dir = adapter && (adapter.dir ?? (await journal.checkpoint(adapter.path))?.dir);
    if (adapter !== undefined && dir === undefined)
      return failed('user', `${adapter.path} is not there (any more): make a sampler of another checkpoint`);
    const over = new AbortController();
    const signal = AbortSignal.any([this.#signal, this.#over.signal, over.signal]);
    const sampled = engine.sample(baseDir, dir, operation.sample, signal);
    // One that took too long is tried again: it must not run beside its next try.
    const result = await within(limits.operationMs, sampled).finally(() => over.abort());
    return { kind: 'sample', result };
  }
}

/** Runs the samples of a base until there were none for a while, or the time is over. Errors: as `drainModel`. */
export async function drainSampling(base: string, deps: SamplingDeps, signal: AbortSignal): Promise<DrainOutcome> {
  return withLane(laneName({ what: 'sampling', base }), deps, signal, async (hold, own) => {
    try {
      return await new SamplingDrain(deps, hold, own, base).run();
    } catch (error) {
      if (signal.aborted) return { end: 'more' };
      throw error;
    }
  });
}
