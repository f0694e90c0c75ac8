/**
 * Hunts training that waits for evaluations: for their places in a pass, for their policy, for their queue; and
 * evaluations that never end because of that. With real passes. Asserted: which request ends before which, and that
 * each result is the same as alone. Not asserted: times.
 */
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createEmbeddedEngine, type EmbeddedEngine } from '../../../trainer/embedded/embedded-engine.ts';
import type { GenerateRequest, GenerateResult } from '../../../trainer/generate-request.ts';
import type { ModelConfig } from '../../../trainer/model/config.ts';
import type { LoadedPolicy } from '../../../trainer/sampler/policy-loader.ts';
import { Sampler, type SamplerOptions } from '../../../trainer/sampler/sampler.ts';
import { decoderKind } from '../vectors/passes.ts';
import { randomIds, randomWeights, smallShape } from './random-policy.ts';
import { qwen3Dir } from '../tiny-policy.ts';

const config: ModelConfig = { ...smallShape, layers: 2, hiddenSize: 64, intermediateSize: 128 };
const otherShape = { ...config, kvHeads: 2 };
const policyOf = (shape: ModelConfig, seed: number): LoadedPolicy => ({
  config: shape,
  weights: randomWeights(shape, seed),
  vocabulary: shape.vocabSize,
});
const policies: Record<string, LoadedPolicy> = {
  trained: policyOf(config, 1),
  evaluated: policyOf(config, 2),
  third: policyOf(config, 3),
  'of another shape': policyOf(otherShape, 4),
};

const [TRAINING, EVALUATION] = [3, 4];
const open: Sampler[] = [];
function sampler(options: Partial<SamplerOptions> = {}): Sampler {
  const made = new Sampler({
    maxContext: 256,
    load: ({ dir }) =>
      policies[dir] === undefined ? Promise.reject(new RangeError(`no policy ${dir}`)) : Promise.resolve(policies[dir]),
    ...options,
  });
  open.push(made);
  return made;
}
afterEach(async () => {
  for (const made of open.splice(0)) {
    await made.idle();
    made.dispose();
  }
});

let serial = 0;
function request(dir: string, priority: number, maxTokens: number): GenerateRequest {
  const name = serial++;
  return {
    policy: { dir, version: 1 },
    cacheKey: `rollout ${name}`,
    noiseKey: `noise ${name}`,
    priority,
    stopTokenIds: [],
    tokens: randomIds(name, 20 + ((name * 17) % 60), 100),
    sampling: { temperature: 1, topP: 1, topK: 0, maxTokens },
  };
}
const several = (count: number, ...given: Parameters<typeof request>): GenerateRequest[] =>
  Array.from({ length: count }, () => request(...given));
const evaluations = (count: number, dir = 'evaluated', maxTokens = 100) => several(count, dir, EVALUATION, maxTokens);

/** The requests that have ended, in order; `all` compares each result with the same request's result alone. */
class Race {
  readonly ended: string[] = [];
  readonly #results: Array<readonly [GenerateRequest, Promise<GenerateResult>]> = [];
  readonly #sampler: Sampler;
  /** Results of samplers in which each request is alone; one sampler for each policy. */
  readonly #options: Partial<SamplerOptions>;

  constructor(one: Sampler, options: Partial<SamplerOptions> = {}) {
    this.#sampler = one;
    this.#options = options;
  }

  enter(name: string, wanted: readonly GenerateRequest[]): void {
    for (const one of wanted) {
      const result = this.#sampler.generate(one);
      void result.then(
        () => this.ended.push(name),
        () => undefined,
      );
      this.#results.push([one, result]);
    }
  }

  async running(count: number): Promise<void> {
    while (this.#sampler.stats().active < count) await new Promise((resolve) => setImmediate(resolve));
  }

  async all(): Promise<string[]> {
    const alone = new Map(Object.keys(policies).map((dir) => [dir, sampler(this.#options)]));
    for (const [wanted, result] of this.#results) {
      expect(await result).toEqual(await alone.get(wanted.policy.dir)?.generate({ ...wanted, priority: TRAINING }));
    }
    return this.ended;
  }
}

describe("a request of training's", () => {
  it.each(['trained', 'evaluated'])(
    'of the policy %s overtakes evaluations that wait, and those that fill the passes',
    async (dir) => {
      const race = new Race(sampler({ maxRows: 2 }));
      race.enter('evaluation', evaluations(6));
      await race.running(2);
      race.enter('training', several(3, dir, TRAINING, 12));
      expect(await race.all()).toEqual([...Array<string>(3).fill('training'), ...Array<string>(6).fill('evaluation')]);
    },
  );

  it('of a policy of another shape waits for what runs, and for nothing that waits', async () => {
    const race = new Race(sampler({ maxRows: 2 }));
    race.enter('evaluation', evaluations(6, 'of another shape', 40));
    await race.running(2);
    race.enter('training', [request('trained', TRAINING, 12)]);
    expect((await race.all()).indexOf('training')).toBe(2);
  });

  it('of a third policy waits until one of two has nothing running, and for nothing that waits', async () => {
    const race = new Race(sampler({ maxRows: 1 }));
    race.enter('evaluation', [...evaluations(1), ...evaluations(1, 'third', 40), ...evaluations(3)]);
    await race.running(2);
    race.enter('training', [request('trained', TRAINING, 12)]);
    expect((await race.all()).indexOf('training')).toBe(1);
  });

  it('computes a prompt itself instead of waiting for a paused evaluation that has started it', async () => {
    const race = new Race(sampler({ maxRows: 1, prefillTokens: 16 }));
    const tokens = randomIds(1000, 150, 100);
    race.enter('evaluation', [{ ...request('trained', EVALUATION, 60), tokens }]);
    await race.running(1);
    race.enter('training 1', [request('trained', TRAINING, 12)]);
    race.enter('training 2', [{ ...request('trained', TRAINING, 12), tokens }]);
    race.enter('training 3', [request('trained', TRAINING, 12)]);
    expect(await race.all()).toEqual(['training 1', 'training 2', 'training 3', 'evaluation']);
  });

  it('waits for room until enough of what runs has ended, and for nothing that waits', async () => {
    const contextBytes = 4 * 2 * config.layers * config.headDim * 256;
    const race = new Race(sampler({ cacheBytes: 2 * contextBytes }));
    race.enter(
      'evaluation',
      evaluations(6, 'evaluated', 200).map((one) => ({ ...one, tokens: one.tokens.slice(0, 20) })),
    );
    await race.running(2);
    race.enter('training', [request('trained', TRAINING, 100)]);
    expect((await race.all()).indexOf('training')).toBeLessThanOrEqual(2);
  });
});

describe('evaluations', () => {
  it('end beside training that never stops, of another policy and in full passes', async () => {
    const one = sampler({ maxRows: 2, patienceMs: 50 });
    const race = new Race(one);
    race.enter('evaluation', evaluations(6));
    const isOver = () => race.ended.filter((name) => name === 'evaluation').length === 6;
    const trainer = async (): Promise<void> => {
      while (!isOver()) await one.generate(request('trained', TRAINING, 12));
    };
    await Promise.all([trainer(), trainer(), trainer()]);
    await race.all();
  });

  it('that run pause during an update, and end after it; training requests from before it end before it', async () => {
    const one = sampler();
    const race = new Race(one);
    race.enter('evaluation', evaluations(3));
    race.enter('training', several(2, 'trained', TRAINING, 12));
    await race.running(5);
    const update = one.during(async () => {
      race.ended.push('update');
      const { sampledTokens, active } = one.stats();
      await new Promise((resolve) => setTimeout(resolve, 50));
      expect(one.stats()).toMatchObject({ sampledTokens, active });
      expect(active).toBe(3);
    });
    race.enter('evaluation', evaluations(2));
    await update;
    expect(await race.all()).toEqual([
      ...Array<string>(2).fill('training'),
      'update',
      ...Array<string>(5).fill('evaluation'),
    ]);
  });
});

it.each([
  { kind: 'native', dirs: Object.keys(policies), count: 20 },
  { kind: 'graph', dirs: ['trained', 'evaluated'], count: 8 },
] as const)(
  'for any mix of requests, each gets the result that it gets alone, by the $kind decoder',
  async ({ kind, dirs, count }) => {
    const race = new Race(sampler({ maxRows: 3, prefillTokens: 48, kind: decoderKind(kind) }), {
      kind: decoderKind(kind),
    });
    const wanted = Array.from({ length: count }, (_, i) =>
      request(dirs[(i * 7) % dirs.length] ?? '', 1 + ((i * 3) % 5), 5 + ((i * 11) % 40)),
    );
    for (const [i, one] of wanted.entries()) {
      race.enter('', [one]);
      if (i % 5 === 0) await new Promise((resolve) => setTimeout(resolve, 2));
    }
    expect(await race.all()).toHaveLength(count);
  },
);

describe('two policies on the embedded engine', () => {
  let engine: EmbeddedEngine;
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'longhaul-priority-'));
    await cp(qwen3Dir, join(folder, 'evaluated'), { recursive: true });
    engine = await createEmbeddedEngine({ maxRows: 4 });
  });
  afterAll(async () => {
    await engine?.close();
    await rm(folder, { recursive: true, force: true });
  });

  it("training's requests overtake earlier evaluations, which still end", async () => {
    const ended: string[] = [];
    const ask = (name: string, dir: string, priority: number, maxTokens: number) =>
      engine.generate({ ...request(dir, priority, maxTokens), tokens: [304, 452, 450, 459] }).then(({ tokens }) => {
        ended.push(name);
        return tokens.length;
      });
    const waiting = Array.from({ length: 12 }, () => ask('evaluation', join(folder, 'evaluated'), EVALUATION, 300));
    const urgent = Array.from({ length: 6 }, () => ask('training', qwen3Dir, TRAINING, 20));
    expect(await Promise.all(urgent)).toEqual(Array(6).fill(20));
    expect(ended).not.toContain('evaluation');
    expect(await Promise.all(waiting)).toEqual(Array(12).fill(300));
  });
});
