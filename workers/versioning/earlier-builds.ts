/**
 * Workers of earlier builds beside the current one, in the same process: each runs the bundle that its rollouts started
 * with, until no workflow that is pinned to it is open. If this machine lacks a build's bundle, the build is reported.
 */

import type { Worker } from '@temporalio/worker';
import { setTimeout as sleep } from 'node:timers/promises';
import { bundleOfBuild } from '../workflow-bundle.ts';

/** Interval of asking the server which builds are done; the server itself takes minutes to find out. */
const ASK_EVERY_MS = 60_000;

export interface EarlierBuildsDeps {
  /** Returns the builds that may still have work. */
  readonly unfinished: () => Promise<string[]>;
  readonly create: (buildId: string, bundle: string) => Promise<Worker>;
  readonly say: (line: string) => void;
}

export class EarlierBuilds {
  readonly #deps: EarlierBuildsDeps;
  readonly #running = new Map<string, { readonly worker: Worker; readonly done: Promise<void> }>();
  readonly #absent = new Set<string>();
  readonly #stopped = new AbortController();

  constructor(deps: EarlierBuildsDeps) {
    this.#deps = deps;
  }

  /** Builds that have a worker now. */
  get builds(): string[] {
    return [...this.#running.keys()];
  }

  /** Starts workers of builds that have work, and stops the others. */
  async adjust(): Promise<void> {
    const wanted = new Set(await this.#deps.unfinished());
    for (const build of wanted) if (!this.#running.has(build)) await this.#begin(build);
    for (const [build, { worker, done }] of this.#running) {
      if (wanted.has(build)) continue;
      worker.shutdown();
      await done;
      this.#running.delete(build);
      this.#deps.say(`Build ${build}: all of its rollouts have ended, its worker has stopped`);
    }
  }

  /** Adjusts until `stop`; if the server does not answer, the next round asks again. */
  async watch(): Promise<void> {
    while (!this.#stopped.signal.aborted) {
      await this.adjust().catch((error: unknown) =>
        this.#deps.say(`Earlier builds: ${error instanceof Error ? error.message : String(error)}`),
      );
      await sleep(ASK_EVERY_MS, undefined, { signal: this.#stopped.signal }).catch(() => undefined);
    }
    for (const { worker } of this.#running.values()) worker.shutdown();
    await Promise.all([...this.#running.values()].map(({ done }) => done));
  }

  stop(): void {
    this.#stopped.abort();
  }

  async #begin(build: string): Promise<void> {
    const bundle = await bundleOfBuild(build);
    if (bundle === undefined) {
      if (!this.#absent.has(build))
        this.#deps.say(
          `Build ${build} has open rollouts, and this machine lacks its code: start an orchestrator of that build`,
        );
      this.#absent.add(build);
      return;
    }
    const worker = await this.#deps.create(build, bundle);
    // A worker that fails leaves its build to the next round, which starts another one.
    const done = worker.run().catch((error: unknown) => {
      this.#running.delete(build);
      this.#deps.say(`Build ${build}: ${error instanceof Error ? error.message : String(error)}`);
    });
    this.#running.set(build, { worker, done });
    this.#deps.say(`Build ${build} has a worker until its rollouts have ended`);
  }
}
