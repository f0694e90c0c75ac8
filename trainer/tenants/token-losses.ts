/** The losses of the Tinker API: sums over tokens, and their slopes by each target's log-probability. Pure. */

import type { TinkerDatum, TinkerLoss, TinkerPass } from '../../protocol/tinker.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';

interface Clip {
  readonly low: number;
  readonly high: number;
}

/** Of one token. */
interface TokenLoss {
  readonly loss: number;
  /** dL/d log p. */
  readonly slope: number;
  /** exp(p − q); `undefined` for losses without one. */
  readonly ratio?: number;
  readonly clipped?: boolean;
}

interface FormulaSettings extends Clip {
  /** Of `dro`. */
  readonly beta: number;
  /** Of `gspo`: the sequence's ratio. */
  readonly sequenceRatio: number;
}

type Formula = (datum: TinkerDatum, at: number, logprob: number, settings: FormulaSettings) => TokenLoss;

const clamp = (ratio: number, { low, high }: Clip): number => Math.min(Math.max(ratio, low), high);

/** Schulman et al. 2017, eq. 7. Where the clipped product is the smaller one, it is constant. */
function clippedLoss(ratio: number, advantage: number, clip: Clip): TokenLoss {
  const [free, bound] = [ratio * advantage, clamp(ratio, clip) * advantage];
  const clipped = bound < free;
  return { loss: -Math.min(free, bound), slope: clipped ? 0 : -free, ratio, clipped };
}

/**
 * The geometric mean of exp(p − q) over the tokens of the mask. Zheng et al. 2025 (GSPO), eq. 7. Not a constant: each
 * token's gradient goes through its own log-probability, with this value (GSPO-token, eq. 14).
 */
function sequenceRatioOf({ logprobs, ratioMask }: TinkerDatum, now: Float32Array): number {
  let [sum, count] = [0, 0];
  for (const [at, logprob] of now.entries()) {
    if ((ratioMask?.[at] ?? 0) === 0) continue;
    sum += logprob - (logprobs?.[at] ?? 0);
    count += 1;
  }
  return Math.exp(sum / count);
}

/** The advantage of a token, and exp(p − q). `checkPass` made sure of the inputs. */
function ratioOf({ logprobs, advantages }: TinkerDatum, at: number, logprob: number) {
  return { ratio: Math.exp(logprob - (logprobs?.[at] ?? 0)), advantage: advantages?.[at] ?? 0 };
}

const formulas: Readonly<Record<TinkerLoss, Formula>> = {
  cross_entropy: ({ weights }, at, logprob) => {
    const weight = weights?.[at] ?? 1;
    return { loss: weight === 0 ? 0 : -weight * logprob, slope: -weight };
  },
  importance_sampling: (datum, at, logprob) => {
    const { ratio, advantage } = ratioOf(datum, at, logprob);
    return { loss: -ratio * advantage, slope: -ratio * advantage, ratio };
  },
  ppo: (datum, at, logprob, clip) => {
    const { ratio, advantage } = ratioOf(datum, at, logprob);
    return clippedLoss(ratio, advantage, clip);
  },
  // MiniMax-M1 2025, eq. 4: the clipped ratio is a constant weight.
  cispo: (datum, at, logprob, clip) => {
    const { ratio, advantage } = ratioOf(datum, at, logprob);
    const weight = clamp(ratio, clip);
    return { loss: -weight * logprob * advantage, slope: -weight * advantage, ratio, clipped: weight !== ratio };
  },
  // Richemond et al. 2024: the soft advantage is the caller's, the penalty keeps p near q.
  dro: ({ logprobs, advantages }, at, logprob, { beta }) => {
    const [advantage, gap] = [advantages?.[at] ?? 0, logprob - (logprobs?.[at] ?? 0)];
    const loss = -(logprob * advantage - 0.5 * beta * gap ** 2);
    return { loss, slope: -(advantage - beta * gap), ratio: Math.exp(gap) };
  },
  gspo: ({ advantages }, at, _logprob, { sequenceRatio, ...clip }) =>
    clippedLoss(sequenceRatio, advantages?.[at] ?? 0, clip),
};

const DEFAULT_CLIP = { clip_low_threshold: 0.8, clip_high_threshold: 1.2 } as const;

/** The settings of each loss. */
export const LOSS_SETTINGS: Readonly<Record<TinkerLoss, readonly string[]>> = {
  cross_entropy: [],
  importance_sampling: [],
  ppo: Object.keys(DEFAULT_CLIP),
  cispo: Object.keys(DEFAULT_CLIP),
  dro: ['beta'],
  gspo: Object.keys(DEFAULT_CLIP),
};

/** Settings without a default. */
export const NEEDED_SETTINGS: Readonly<Partial<Record<TinkerLoss, string>>> = { dro: 'beta' };

export const clipOf = (config: TinkerPass['config']): Clip => ({
  low: config['clip_low_threshold'] ?? DEFAULT_CLIP.clip_low_threshold,
  high: config['clip_high_threshold'] ?? DEFAULT_CLIP.clip_high_threshold,
});

/** Sums of one datum; a pass adds them in the order of its data. */
export interface DatumLoss {
  readonly loss: number;
  /** dL/d log p, one per target. */
  readonly slope: Float32Array;
  readonly clipped: number;
  /** Infinity and −Infinity for losses without ratios. */
  readonly leastRatio: number;
  readonly greatestRatio: number;
}

/**
 * The loss of datum `index` of a pass, for the log-probabilities of its targets. Errors: `UserInputError` for a token
 * whose loss float32 cannot hold.
 */
export function datumLoss(
  pass: Pick<TinkerPass, 'data' | 'loss' | 'config'>,
  index: number,
  logprobs: Float32Array,
): DatumLoss {
  const datum = pass.data[index];
  if (datum === undefined) throw new RangeError(`the pass has no datum ${index}`);
  const formula = formulas[pass.loss];
  const sequenceRatio = pass.loss === 'gspo' ? sequenceRatioOf(datum, logprobs) : 1;
  const settings = { ...clipOf(pass.config), beta: pass.config['beta'] ?? 0, sequenceRatio };
  const slope = new Float32Array(logprobs.length);
  let [loss, clipped, leastRatio, greatestRatio] = [0, 0, Infinity, -Infinity];
  for (const [at, logprob] of logprobs.entries()) {
    const token = formula(datum, at, logprob, settings);
    slope[at] = token.slope;
    if (!Number.isFinite(slope[at]) || !Number.isFinite(token.loss)) {
      // Of any token: a sequence's ratio is made of all.
      const wrong = logprobs.find((value) => !Number.isFinite(value));
      if (wrong !== undefined)
        throw new UserInputError(
          "the model's log-probabilities",
          wrong,
          'the weights of the model are not finite, or too large to compute with: load weights that were saved before',
        );
      throw new UserInputError(
        `data[${index}].logprobs[${at}]`,
        datum.logprobs?.[at] ?? logprob,
        `the loss of this token is ${token.loss} at the log-probability ${logprob}: ` +
          'give the log-probability with which the token was sampled',
      );
    }
    loss += token.loss;
    clipped += token.clipped === true ? 1 : 0;
    leastRatio = Math.min(leastRatio, token.ratio ?? Infinity);
    greatestRatio = Math.max(greatestRatio, token.ratio ?? -Infinity);
  }
  return { loss, slope, clipped, leastRatio, greatestRatio };
}

/** Metrics of a pass as `name:reduction`, so that the SDK merges those of several chunks. */
export function passMetrics(
  pass: Pick<TinkerPass, 'data' | 'loss'>,
  losses: readonly DatumLoss[],
): Readonly<Record<string, number>> {
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
  const metrics = {
    'loss:sum': sum(losses.map(({ loss }) => loss)),
    'datums:sum': pass.data.length,
    'tokens:sum': sum(pass.data.map(({ targets }) => targets.length)),
  };
  if (pass.loss === 'cross_entropy') return metrics;
  return {
    ...metrics,
    'ratio:min': losses.reduce((least, { leastRatio }) => Math.min(least, leastRatio), Infinity),
    'ratio:max': losses.reduce((most, { greatestRatio }) => Math.max(most, greatestRatio), -Infinity),
    'clipped_tokens:sum': sum(losses.map(({ clipped }) => clipped)),
  };
}
