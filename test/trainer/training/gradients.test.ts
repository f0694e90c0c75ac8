/** Gradients of losses against finite differences of the pure functions, for random tokens and settings. */

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { criticLoss } from '../../../trainer/algorithms/critic-loss.ts';
import { KL_ESTIMATORS } from '../../../protocol/algorithm.ts';
import { klLoss } from '../../../trainer/algorithms/kl.ts';
import { policyLoss } from '../../../trainer/algorithms/losses/policy-loss.ts';
import { LOSSES } from '../../../trainer/algorithms/losses/registry.ts';
import { DEFAULT_LOSS_SETTINGS } from '../../../trainer/training/settings.ts';
import { NO_CORRECTION } from '../../../trainer/algorithms/off-policy-settings.ts';

const logprob = fc.double({ min: -4, max: -0.05, noNaN: true });
const shift = fc.double({ min: -0.6, max: 0.6, noNaN: true });
/** Sequences of three tokens with one advantage per sequence, as from the group estimators. */
const sequences = fc.array(
  fc.record({
    advantage: fc.double({ min: -2, max: 2, noNaN: true }),
    tokens: fc.array(fc.tuple(logprob, shift, shift), { minLength: 3, maxLength: 3 }),
  }),
  { minLength: 1, maxLength: 4 },
);

type Sequences = readonly {
  readonly advantage: number;
  readonly tokens: readonly (readonly [number, number, number])[];
}[];

function tokensOf(given: Sequences) {
  const tokens = given.flatMap((sequence) => sequence.tokens);
  return {
    starts: given.map((_, i) => 3 * i).concat(3 * given.length),
    mask: tokens.map(() => 1),
    logprobs: tokens.map(([value]) => value),
    old: tokens.map(([value, by]) => value + by),
    rollout: tokens.map(([value, , by]) => Math.min(-0.01, value + by)),
    advantages: given.flatMap(({ advantage }) => [advantage, advantage, advantage]),
  };
}

/** One advantage for all tokens of a sequence: only then is GSPO's gradient the slope of its value. */
const settings = {
  ...DEFAULT_LOSS_SETTINGS,
  offPolicyCorrection: { ...NO_CORRECTION, tisRatioType: 'sequence' as const },
};
const STEP = 1e-6;

/** Expects a value between the slopes on both sides, since these differ at a kink. */
function agrees(
  value: (logprobs: readonly number[]) => number,
  logprobs: readonly number[],
  gradient: ArrayLike<number>,
): void {
  for (const [i] of logprobs.entries()) {
    const moved = (by: number): number => value(logprobs.map((x, at) => (at === i ? x + by : x)));
    const sides = [(moved(STEP) - moved(0)) / STEP, (moved(0) - moved(-STEP)) / STEP];
    const slope = gradient[i]!;
    const tolerance = 1e-3 * Math.max(1, Math.abs(slope));
    if (slope < Math.min(...sides) - tolerance || slope > Math.max(...sides) + tolerance)
      expect.fail(`token ${i}: ${slope}, but the slopes are ${sides.join(' and ')}`);
  }
}

/**
 * Losses whose weight is under a stop-gradient: their value is Σ gradient · logprob, and its slope is not the gradient.
 */
const WEIGHTED = ['cispo', 'rollout_is'];
/** Losses that choose tokens: the choice may jump when one log-probability changes. */
const CHOOSING = ['kl_cov', 'clip_cov'];

describe('policy losses', () => {
  test.each(Object.entries(LOSSES))('%s', (name, loss) => {
    fc.assert(
      fc.property(sequences, (given) => {
        const tokens = tokensOf(given);
        const { loss: value, gradient } = policyLoss(loss, tokens, settings);
        if (WEIGHTED.includes(name)) {
          const linear = gradient.reduce((sum, g, i) => sum + g * tokens.logprobs[i]!, 0);
          expect(Math.abs(value - linear)).toBeLessThan(1e-9 * Math.max(1, Math.abs(value)));
        } else if (CHOOSING.includes(name)) {
          expect(gradient.every(Number.isFinite)).toBe(true);
        } else {
          agrees((logprobs) => policyLoss(loss, { ...tokens, logprobs }, settings).loss, tokens.logprobs, gradient);
        }
      }),
      { numRuns: 100, seed: 7 },
    );
  });

  test('the losses that choose tokens, for steps that change no choice', () => {
    const tokens = tokensOf([
      {
        advantage: 1,
        tokens: [
          [-0.5, 0.1, 0],
          [-3, -0.1, 0],
          [-1, 0.2, 0],
        ],
      },
      {
        advantage: -1,
        tokens: [
          [-0.2, 0.1, 0],
          [-2, 0.1, 0],
          [-1.5, -0.3, 0],
        ],
      },
    ]);
    for (const name of ['kl_cov', 'clip_cov'] as const) {
      const chosen = {
        ...settings,
        clipCov: { ratio: 1, lowerBound: 0.01, upperBound: 9 },
        klCov: { fraction: 0.5, coefficient: 0.7 },
      };
      const { gradient } = policyLoss(LOSSES[name], tokens, chosen);
      agrees((logprobs) => policyLoss(LOSSES[name], { ...tokens, logprobs }, chosen).loss, tokens.logprobs, gradient);
    }
  });
});

test.each(KL_ESTIMATORS)('KL by %s', (kind) => {
  fc.assert(
    fc.property(sequences, (given) => {
      const { starts, mask, logprobs, old: reference } = tokensOf(given);
      const { gradient } = klLoss({ starts, mask, logprobs, reference }, kind, given.length);
      agrees(
        (moved) => klLoss({ starts, mask, logprobs: moved, reference }, kind, given.length).value,
        logprobs,
        gradient,
      );
    }),
    { numRuns: 50, seed: 7 },
  );
});

test.each([0.2, Infinity])("the critic's loss, values clipped to ±%s", (clip) => {
  fc.assert(
    fc.property(sequences, (given) => {
      const { starts, mask, logprobs: values, old, rollout: returns } = tokensOf(given);
      const { gradient } = criticLoss({ starts, mask, values, old, returns }, clip);
      agrees((moved) => criticLoss({ starts, mask, values: moved, old, returns }, clip).loss, values, gradient);
    }),
    { numRuns: 100, seed: 7 },
  );
});
