/**
 * A model of pairs: logits of the next token by the last one alone, trained exactly by the API's losses and AdamW.
 * What a real engine is asked for, in the size of a test. Works off a journal until it is closed.
 */

import { createHash } from 'node:crypto';
import type {
  AdamParameters,
  TinkerDatum,
  TinkerOperation,
  TinkerPass,
  TinkerPassResult,
  TinkerResult,
  TinkerSample,
  TinkerSampleResult,
} from '../../../protocol/tinker.ts';
import type { TinkerJournal, WaitingOperation } from '../../../store/tinker/journal.ts';
import type { MemoryJournal } from './memory-journal.ts';

/** So that steps of a usual size teach it something. */
const SCALE = 10;

export interface ToyState {
  readonly weights: Float64Array;
  readonly gradient: Float64Array;
  readonly first: Float64Array;
  readonly second: Float64Array;
  steps: number;
}

const copyOf = (state: ToyState): ToyState => structuredClone(state);

export class ToyEngine {
  readonly #journal: MemoryJournal;
  readonly #vocab: number;
  readonly #eos: number;
  readonly #base: Float64Array;
  readonly models = new Map<string, ToyState>();
  readonly saved = new Map<string, ToyState>();
  #turn: Promise<void> = Promise.resolve();
  /** While false, what is accepted waits. */
  running = true;

  constructor(journal: MemoryJournal, { vocab, eos }: { vocab: number; eos: number }) {
    this.#journal = journal;
    this.#vocab = vocab;
    this.#eos = eos;
    this.#base = Float64Array.from({ length: vocab * vocab }, (_, i) => Math.sin(i * 12.9898) * 0.5);
    journal.on('accepted', () => this.wake());
  }

  wake(): void {
    this.#turn = this.#turn.then(() => this.#drain());
  }

  async #drain(): Promise<void> {
    if (!this.running) return;
    for (const kind of ['model', 'sampler'] as const)
      for (const lane of await this.#journal.busyLanes(kind, 1000))
        for (const waiting of await this.#journal.waiting(lane, 1000)) await this.#work(waiting);
  }

  async #work({ requestId, lane, operation, tenant }: WaitingOperation): Promise<void> {
    try {
      const result = await this.#run(lane, operation);
      const isSaved = result.kind === 'saved' && operation.kind === 'save_weights';
      await this.#journal.finish(
        requestId,
        result,
        isSaved
          ? {
              path: operation.path,
              run: lane,
              tenant,
              kind: operation.what,
              dir: '/none',
              bytes: result.bytes,
              sha256: result.sha256,
              createdAt: new Date().toISOString(),
              public: false,
              ...(operation.expiresAt === undefined ? {} : { expiresAt: operation.expiresAt }),
              ...(operation.userMetadata === undefined ? {} : { userMetadata: operation.userMetadata }),
            }
          : undefined,
      );
    } catch (error) {
      await this.#journal.finish(requestId, { kind: 'failed', category: 'user', message: (error as Error).message });
    }
  }

  #fresh(): ToyState {
    const size = this.#vocab ** 2;
    const zeros = () => new Float64Array(size);
    return { weights: zeros(), gradient: zeros(), first: zeros(), second: zeros(), steps: 0 };
  }

  #state(lane: string): ToyState {
    const state = this.models.get(lane);
    if (!state) throw new Error('the model is not loaded');
    return state;
  }

  async #run(lane: string, operation: TinkerOperation): Promise<TinkerResult> {
    switch (operation.kind) {
      case 'create_model':
        this.models.set(lane, this.#fresh());
        return { kind: 'done' };
      case 'load_weights': {
        const saved = this.saved.get(operation.path);
        if (!saved) throw new Error(`${operation.path} does not exist`);
        this.models.set(
          lane,
          operation.optimizer ? copyOf(saved) : { ...this.#fresh(), weights: saved.weights.slice() },
        );
        return { kind: 'done' };
      }
      case 'pass':
        return { kind: 'pass', result: this.#pass(this.#state(lane), operation.pass) };
      case 'optim_step':
        return { kind: 'optim_step', gradNorm: adamStep(this.#state(lane), operation.adam) };
      case 'save_weights': {
        if (!operation.overwrite && this.saved.has(operation.path))
          throw new Error(`${operation.path} exists; give another name, or overwrite`);
        this.saved.set(operation.path, copyOf(this.#state(lane)));
        return { kind: 'saved', path: operation.path, sha256: '0'.repeat(64), bytes: 1000 };
      }
      case 'unload_model':
        this.models.delete(lane);
        return { kind: 'done' };
      case 'sample': {
        const sampler = await (this.#journal as TinkerJournal).sampler(lane);
        const state = sampler?.path === undefined ? this.#fresh() : this.saved.get(sampler.path);
        if (!state) throw new Error('the weights are gone');
        return { kind: 'sample', result: this.#sample(state, operation.sample) };
      }
    }
  }

  /** Log-probabilities of the next token. */
  #row({ weights }: ToyState, last: number, temperature = 1): Float64Array {
    const from = last * this.#vocab;
    const logits = Float64Array.from(
      { length: this.#vocab },
      (_, i) => ((this.#base[from + i] ?? 0) + SCALE * (weights[from + i] ?? 0)) / temperature,
    );
    const most = Math.max(...logits);
    const sum = logits.reduce((total, x) => total + Math.exp(x - most), 0);
    return logits.map((x) => x - most - Math.log(sum));
  }

  /** Of the tokens in the mask: the geometric mean of the ratios. */
  #sequenceRatio(state: ToyState, { tokens, targets, logprobs, ratioMask }: TinkerDatum): number {
    const gaps = Array.from(tokens, (token, i) => this.#row(state, token)[targets[i]!]! - logprobs![i]!);
    const counted = gaps.filter((_, i) => ratioMask![i]! > 0);
    return Math.exp(counted.reduce((sum, gap) => sum + gap, 0) / counted.length);
  }

  #pass(state: ToyState, { data, loss, config, backward }: TinkerPass): TinkerPassResult {
    let total = 0;
    const logprobs = data.map((datum) => {
      const sequenceRatio = loss === 'gspo' ? this.#sequenceRatio(state, datum) : undefined;
      return Float32Array.from(datum.tokens, (token, i) => {
        const row = this.#row(state, token);
        const target = datum.targets[i]!;
        const p = row[target]!;
        const [value, slope] = lossAt(loss, p, datum, i, config, sequenceRatio);
        total += value;
        const from = token * this.#vocab;
        if (backward)
          row.forEach(
            (lp, j) => (state.gradient[from + j]! += SCALE * slope * ((j === target ? 1 : 0) - Math.exp(lp))),
          );
        return p;
      });
    });
    return { logprobs, metrics: { 'loss:sum': total } };
  }

  #sample(state: ToyState, sample: TinkerSample): TinkerSampleResult {
    const texts = (sample.stop ?? []).filter((one) => typeof one === 'string').map((text) => text.codePointAt(0));
    const stops: unknown[] = sample.stop === undefined ? [this.#eos] : [...sample.stop, ...texts];
    const topOf = (row: Float64Array, k: number) =>
      [...row.entries()]
        .toSorted((a, b) => b[1] - a[1])
        .slice(0, k)
        .map(([token, logprob]) => ({ token, logprob }));
    const sequences = Array.from({ length: sample.count }, (_, n) => {
      const [tokens, logprobs] = [new Array<number>(), new Array<number>()];
      const top: Array<ReturnType<typeof topOf>> = [];
      let last = sample.prompt.at(-1)!;
      while (tokens.length < sample.maxTokens && !stops.includes(tokens.at(-1))) {
        const row = this.#row(state, last);
        const noise =
          createHash('sha256').update(`${sample.seed} ${n} ${tokens.length}`).digest().readUInt32BE() / 2 ** 32;
        last =
          sample.temperature === 0 ? topOf(row, 1)[0]!.token : drawn(this.#row(state, last, sample.temperature), noise);
        tokens.push(last);
        logprobs.push(row[last]!);
        top.push(topOf(row, sample.topSampled));
      }
      const finish = stops.includes(tokens.at(-1)) ? ('stop' as const) : ('length' as const);
      const likely = sample.topSampled > 0 ? { top } : {};
      return { tokens: Int32Array.from(tokens), logprobs: Float32Array.from(logprobs), finish, ...likely };
    });
    const rows = Array.from(sample.prompt, (_, i) => (i === 0 ? undefined : this.#row(state, sample.prompt[i - 1]!)));
    return {
      sequences,
      ...(sample.promptLogprobs && {
        promptLogprobs: Float32Array.from(rows, (row, i) => row?.[sample.prompt[i]!] ?? NaN),
      }),
      ...(sample.topPrompt > 0 && { topPrompt: rows.map((row) => (row ? topOf(row, sample.topPrompt) : [])) }),
    };
  }
}

function drawn(row: Float64Array, noise: number): number {
  let sum = 0;
  const found = row.findIndex((lp) => (sum += Math.exp(lp)) > noise);
  return found < 0 ? row.length - 1 : found;
}

/** The loss of one token, and its slope by the log-probability. */
function lossAt(
  loss: TinkerPass['loss'],
  p: number,
  datum: TinkerDatum,
  i: number,
  config: TinkerPass['config'],
  sequenceRatio?: number,
): [number, number] {
  if (loss === 'cross_entropy') {
    const weight = datum.weights?.[i] ?? 1;
    return [-weight * p, -weight];
  }
  const a = datum.advantages![i]!;
  const gap = p - datum.logprobs![i]!;
  if (loss === 'dro') return [-(p * a - 0.5 * config.beta! * gap ** 2), -(a - config.beta! * gap)];
  const ratio = sequenceRatio ?? Math.exp(gap);
  const clipped = Math.min(Math.max(ratio, config.clip_low_threshold ?? 0.8), config.clip_high_threshold ?? 1.2);
  if (loss === 'importance_sampling') return [-ratio * a, -ratio * a];
  if (loss === 'cispo') return [-clipped * p * a, -clipped * a];
  return clipped * a < ratio * a ? [-clipped * a, 0] : [-ratio * a, -ratio * a];
}

function adamStep(state: ToyState, adam: AdamParameters): number {
  const { weights, gradient, first, second } = state;
  const norm = Math.sqrt(gradient.reduce((sum, x) => sum + x * x, 0));
  const scale = adam.gradClipNorm > 0 ? Math.min(1, adam.gradClipNorm / (norm + 1e-6)) : 1;
  state.steps += 1;
  const [one, two] = [1 - adam.beta1 ** state.steps, 1 - adam.beta2 ** state.steps];
  weights.forEach((w, i) => {
    const g = gradient[i]! * scale;
    first[i] = adam.beta1 * first[i]! + (1 - adam.beta1) * g;
    second[i] = adam.beta2 * second[i]! + (1 - adam.beta2) * g * g;
    const step = first[i]! / one / (Math.sqrt(second[i]! / two) + adam.eps);
    weights[i] = w * (1 - adam.learningRate * adam.weightDecay) - adam.learningRate * step;
  });
  gradient.fill(0);
  return norm;
}
