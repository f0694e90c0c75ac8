/** The engine in its own process, so that threads and peak memory are only the engine's; same calls as `peer.py`. */

import { readFile } from 'node:fs/promises';
import { AdamW } from '../../trainer/optimizer.ts';
import { type EmbeddedEngine, createEmbeddedEngine } from '../../trainer/embedded/embedded-engine.ts';
import { Learner } from '../../trainer/learner.ts';
import { readModelConfig } from '../../trainer/model/describe-policy.ts';
import { tokenBatch } from '../../trainer/model/token-batch.ts';
import { loadWeights } from '../../trainer/model/weights.ts';
import { answerCalls, type Calls } from './answer-calls.ts';

interface Training {
  readonly learner: Learner;
  readonly optimizer: AdamW;
}

const SAMPLING = { temperature: 1, topP: 1, topK: 0 };

/** Processor seconds of all threads of this process. */
function processorSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

class Own {
  #dir = '';
  #engine: EmbeddedEngine | undefined;
  #training: Training | undefined;
  #round = 0;

  load({ dir }: { readonly dir: string }) {
    this.#dir = dir;
    return Promise.resolve({});
  }

  /** Sends all requests at once, as rollouts do. No round finds tokens of an earlier one in the cache. */
  async sample({ prompts, tokens }: { readonly prompts: number[][]; readonly tokens: number }) {
    const engine = (this.#engine ??= await createEmbeddedEngine());
    const round = (this.#round += 1);
    const began = performance.now();
    const results = await Promise.all(
      prompts.map((prompt, row) =>
        engine.generate({
          policy: { dir: this.#dir, version: 0 },
          cacheKey: `${round}/${row}`,
          noiseKey: `${round}/${row}`,
          tokens: prompt,
          sampling: { ...SAMPLING, maxTokens: tokens },
          stopTokenIds: [],
        }),
      ),
    );
    return {
      seconds: (performance.now() - began) / 1000,
      tokens: results.reduce((sum, one) => sum + one.tokens.length, 0),
    };
  }

  /** One step of cross-entropy on every token, as one batch. */
  async train({
    sequences,
    rate,
    gradientCheckpointing,
  }: {
    readonly sequences: number[][];
    readonly rate: number;
    readonly gradientCheckpointing: boolean;
  }) {
    const { learner, optimizer } = (this.#training ??= await this.#trainee());
    learner.gradientCheckpointing = gradientCheckpointing;
    const [began, before] = [performance.now(), processorSeconds()];
    const batch = tokenBatch(sequences.map((tokens) => ({ tokens, mask: tokens.map(() => 1) })));
    let loss = 0;
    learner.forwardBackward(batch, false, ({ logprobs }) => {
      for (const logprob of logprobs) loss -= logprob / logprobs.length;
      return new Float32Array(logprobs.length).fill(-1 / logprobs.length);
    });
    const settings = {
      learningRate: rate,
      betas: [0.9, 0.999],
      epsilon: 1e-8,
      weightDecay: 0,
      maxGradNorm: 1,
    } as const;
    const gradNorm = optimizer.apply(learner.policy, learner.gradients.flatten(learner.policy), settings);
    return {
      seconds: (performance.now() - began) / 1000,
      processorSeconds: processorSeconds() - before,
      loss,
      gradNorm,
    };
  }

  async peak() {
    const status = await readFile('/proc/self/status', 'utf8');
    return { bytes: Number(/^VmHWM:\s+(\d+) kB$/mu.exec(status)?.[1]) * 1024 };
  }

  async #trainee(): Promise<Training> {
    const learner = new Learner(await readModelConfig(this.#dir), await loadWeights(this.#dir));
    return { learner, optimizer: AdamW.fresh(learner.policy.layout) };
  }
}

const own = new Own();
const calls: Calls = {
  load: (given) => own.load(given),
  sample: (given) => own.sample(given),
  train: (given) => own.train(given),
  peak: () => own.peak(),
};

await answerCalls(calls);
process.exit(0);
