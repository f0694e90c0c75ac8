/**
 * Passes of an update as Tinker's datums. Position i of a datum predicts the sequence's token i + 1; targets that do
 * not count have weight and advantage 0. Tinker's log-probabilities are of temperature 1.
 *
 * Every loss works on every server: the server's loss, linear in the log-probabilities, is given the slopes of ours as
 * weights. Its gradient is then Σ dL/dlogp · ∇logp, which is ours.
 */

import type { UpdateSettings } from '../../protocol/algorithm.ts';
import type { TinkerLoss } from '../../protocol/tinker.ts';
import type { ScoredSequence, TrainingPass, TrainingSequence } from '../../trainer/backends/definition.ts';
import type { WireDatum } from './wire/pass-request.ts';
import type { WireTensor } from './wire/tensor.ts';

/** Datums of one request, and tokens: the SDK's limits are 1,024 and 5 MB. */
const MOST_DATUMS = 256;
const MOST_TOKENS = 65_536;

/** Positions of a datum whose targets count. */
export function countedAt({ tokens, mask }: ScoredSequence): number[] {
  const counted: number[] = [];
  for (let i = 1; i < tokens.length; i += 1) if (mask[i] === 1) counted.push(i - 1);
  return counted;
}

const tensor = (values: Float32Array | Float64Array, dtype: 'float32' | 'int64'): WireTensor => ({
  dtype,
  shape: [values.length],
  values,
});

/** Numbers of the tokens that count, at their positions; 0 elsewhere. */
function spread(sequence: ScoredSequence, numbers: ArrayLike<number>, scale = 1): Float32Array {
  const values = new Float32Array(Math.max(0, sequence.tokens.length - 1));
  for (const [k, at] of countedAt(sequence).entries()) values[at] = scale * (numbers[k] ?? 0);
  return values;
}

function datumOf(sequence: ScoredSequence, inputs: Readonly<Record<string, Float32Array>>): WireDatum {
  const { tokens } = sequence;
  return {
    tokens: Int32Array.from(tokens.slice(0, -1)),
    inputs: {
      target_tokens: tensor(Float64Array.from(tokens.slice(1)), 'int64'),
      ...Object.fromEntries(Object.entries(inputs).map(([name, values]) => [name, tensor(values, 'float32')])),
    },
  };
}

/** Weight 1 for each token that counts: for log-probabilities. */
export const scoringDatum = (sequence: ScoredSequence): WireDatum =>
  datumOf(sequence, {
    weights: spread(
      sequence,
      countedAt(sequence).map(() => 1),
    ),
  });

/** `cross_entropy` −Σ w·p with w = −dL/dp. */
export const crossEntropyDatum = (sequence: ScoredSequence, slopes: ArrayLike<number>): WireDatum =>
  datumOf(sequence, { weights: spread(sequence, slopes, -1) });

/**
 * `importance_sampling` −Σ exp(p − q)·A with q the log-probabilities of now, so that the ratio is 1, and A = −dL/dp.
 * For servers that take means: they divide by the weights' sum, which a weight may not be negative for. `scale` undoes
 * it.
 */
export const importanceDatum = (
  sequence: ScoredSequence,
  slopes: ArrayLike<number>,
  logprobs: ArrayLike<number>,
  scale: number,
): WireDatum =>
  datumOf(sequence, {
    weights: spread(
      sequence,
      countedAt(sequence).map(() => 1),
    ),
    logprobs: spread(sequence, logprobs),
    advantages: spread(sequence, slopes, -scale),
  });

/** The server's own loss: ours, if nothing is added to it. */
export interface OwnLoss {
  readonly loss: TinkerLoss;
  readonly config: Readonly<Record<string, number>>;
  readonly datum: (sequence: TrainingSequence) => WireDatum;
}

/** Settings under which a loss is more than its own formula. */
function isPlain({ kl, offPolicyCorrection }: UpdateSettings): boolean {
  const { tisRatioType = 'none', sequenceMaskMetric = 'none', ...others } = offPolicyCorrection ?? {};
  const isCorrecting = tisRatioType !== 'none' || sequenceMaskMetric !== 'none' || Object.keys(others).length > 0;
  return kl?.in !== 'loss' && !isCorrecting;
}

/** `undefined` if the server has no such loss: then slopes are sent. */
export function ownLoss(algorithm: UpdateSettings): OwnLoss | undefined {
  const { loss = 'regular', clipLow, clipHigh, modules } = algorithm;
  if (modules !== undefined || !isPlain(algorithm)) return undefined;
  const ratios = (sequence: TrainingSequence): WireDatum =>
    datumOf(sequence, { logprobs: spread(sequence, sequence.old), advantages: spread(sequence, sequence.advantages) });
  const config = { clip_low_threshold: 1 - (clipLow ?? 0.2), clip_high_threshold: 1 + (clipHigh ?? 0.2) };
  if (loss === 'regular') return { loss: 'ppo', config, datum: ratios };
  if (loss === 'importance_sampling') return { loss, config: {}, datum: ratios };
  if (loss === 'cross_entropy') return { loss, config: {}, datum: scoringDatum };
  return undefined;
}

/** Requests of bounded size, in order. */
export function inRequests(data: readonly WireDatum[]): WireDatum[][] {
  const requests: WireDatum[][] = [];
  let tokens = 0;
  for (const datum of data) {
    const last = requests.at(-1);
    if (last === undefined || last.length >= MOST_DATUMS || tokens + datum.tokens.length > MOST_TOKENS) {
      requests.push([datum]);
      tokens = datum.tokens.length;
    } else {
      last.push(datum);
      tokens += datum.tokens.length;
    }
  }
  return requests;
}

/** The slopes of a pass, or other numbers of its tokens that count, by sequence. */
export function bySequence(pass: TrainingPass, numbers: ArrayLike<number>): Float64Array[] {
  let from = 0;
  return pass.sequences.map((sequence) => {
    const { length } = countedAt(sequence);
    const own = Float64Array.from({ length }, (_, i) => numbers[from + i] ?? 0);
    from += length;
    return own;
  });
}
