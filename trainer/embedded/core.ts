/**
 * Sampling and training that share a thread. Training queues like a generation of ordinary priority: it waits for the
 * generations that are due before it, and all others pause until it ends.
 */

import type { GenerateRequest, GenerateResult } from '../generate-request.ts';
import type { GenerateCost } from '../../protocol/sampling.ts';
import type { EngineStats, Trained, TrainingWork } from './messages.ts';
import type { Sampler } from '../sampler/sampler.ts';

type Progress = (fraction: number) => void;
export type Train = (work: TrainingWork, onProgress: Progress, signal?: AbortSignal) => Promise<Trained>;

export class EngineCore {
  readonly #sampler: Pick<Sampler, 'during' | 'stats'>;
  readonly #sample: Sampler['generate'];
  readonly #train: Train;
  #lastWork: Promise<unknown> = Promise.resolve();
  #updates = 0;
  #updateSeconds = 0;

  constructor(sampler: Pick<Sampler, 'during' | 'stats'>, sample: Sampler['generate'], train: Train) {
    this.#sampler = sampler;
    this.#sample = sample;
    this.#train = train;
  }

  async generate(
    request: GenerateRequest,
    signal: AbortSignal,
    onCost?: (cost: GenerateCost) => void,
  ): Promise<GenerateResult> {
    await this.#lastWork;
    signal.throwIfAborted();
    return this.#sample(request, signal, onCost);
  }

  /** `signal`: work that has not begun never does. */
  async train(work: TrainingWork, onProgress: Progress, signal?: AbortSignal): Promise<Trained> {
    const running = this.#lastWork.then(() => {
      signal?.throwIfAborted();
      return this.#run(work, onProgress, signal);
    });
    this.#lastWork = running.catch(() => undefined);
    return running;
  }

  stats(): EngineStats {
    return { ...this.#sampler.stats(), updates: this.#updates, updateSeconds: this.#updateSeconds };
  }

  #run(work: TrainingWork, onProgress: Progress, signal?: AbortSignal): Promise<Trained> {
    return this.#sampler.during(async () => {
      const begun = performance.now();
      const trained = await this.#train(work, onProgress, signal);
      if (work.what === 'update') this.#updates += 1;
      this.#updateSeconds += (performance.now() - begun) / 1000;
      return trained;
    });
  }
}
