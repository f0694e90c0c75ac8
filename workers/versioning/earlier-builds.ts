/**
 * Workers of earlier builds beside the current one, in the same process: each runs the bundle that its rollouts began
 * with, until nothing that is pinned to it is open. A build whose bundle this machine lacks is named, not guessed.
 */

import type { Worker } from '@temporalio/worker';
import { setTimeout as sleep } from 'node:timers/promises';
import { bundleOfBuild } from '../workflow-bundle.ts';

/** How often the server is asked which builds are done; it finds that out within minutes itself. */
const ASK_EVERY_MS = 60_000;

export interface EarlierBuildsDeps {
  /** Builds that may still have work. */
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

  /** Builds that are served now. */
  get builds(): string[] {
    return [...this.#running.keys()];
  }

  /** Begins what has work and ends what has none. */
  async adjust(): Promise<void> {
    const wanted = new Set(await this.#deps.unfinished());
    for (const build of wanted) if (!this.#running.has(build)) await this.#begin(build);
    for (const [build, { worker, done }] of this.#running) {
      if (wanted.has(build)) continue;
      worker.shutdown();
      await done;
      this.#running.delete(build);
      this.#deps.say(`Build ${build} has nothing left to end`);
    }
  }

  /** Adjusts until `stop`; a server that does not answer is asked again. */
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
          `Build ${build} has rollouts to end, and this machine lacks its code: start an orchestrator of that build`,
        );
      this.#absent.add(build);
      return;
    }
    const worker = await this.#deps.create(build, bundle);
    const done = worker
      .run()
      .catch((error: unknown) =>
        this.#deps.say(`Build ${build}: ${error instanceof Error ? error.message : String(error)}`),
      );
    this.#running.set(build, { worker, done });
    this.#deps.say(`Build ${build} is served until its rollouts have ended`);
  }
}
