/**
 * Sampling and training that share a thread: an update waits for the generations that were asked for before it, and
 * those asked for after it wait for the update.
 */

import type { GenerateRequest, GenerateResult, UpdateMetrics, UpdateRequest } from './engine.ts';
import type { EngineStats } from './embedded-engine-messages.ts';
import type { Sampler } from './sampler/sampler.ts';

export type Update = (request: UpdateRequest, onProgress: (fraction: number) => void) => Promise<UpdateMetrics>;

export class EngineCore {
  readonly #sampler: Sampler;
  readonly #update: Update;
  #lastUpdate: Promise<unknown> = Promise.resolve();
  #updates = 0;
  #updateSeconds = 0;

  constructor(sampler: Sampler, update: Update) {
    this.#sampler = sampler;
    this.#update = update;
  }

  async generate(request: GenerateRequest, signal: AbortSignal): Promise<GenerateResult> {
    await this.#lastUpdate;
    signal.throwIfAborted();
    return this.#sampler.generate(request, signal);
  }

  async update(request: UpdateRequest, onProgress: (fraction: number) => void): Promise<UpdateMetrics> {
    const running = this.#lastUpdate.then(() => this.#runUpdate(request, onProgress));
    this.#lastUpdate = running.catch(() => undefined);
    return running;
  }

  stats(): EngineStats {
    return { ...this.#sampler.stats(), updates: this.#updates, updateSeconds: this.#updateSeconds };
  }

  async #runUpdate(request: UpdateRequest, onProgress: (fraction: number) => void): Promise<UpdateMetrics> {
    await this.#sampler.idle();
    const begun = performance.now();
    const metrics = await this.#update(request, onProgress);
    this.#updates += 1;
    this.#updateSeconds += (performance.now() - begun) / 1000;
    return metrics;
  }
}
