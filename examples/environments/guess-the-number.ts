/**
 * A game in messages: the policy guesses a number, and the environment answers higher or lower. Each guess that halves
 * the range earns a part of the reward. `step` answers each message; there are no tools and no sandbox.
 */

import { defineEnvironment, z } from 'longhaul';

interface State {
  readonly low: number;
  readonly high: number;
  readonly guesses: number;
}

defineEnvironment({
  name: 'guess-the-number',
  options: z.strictObject({ highest: z.int().min(1).max(1_000_000).default(100), guesses: z.int().min(1).default(8) }),

  open: async ({ highest, guesses: most }) =>
    await Promise.resolve({
      digest: 'guess-the-number 1',
      splits: { train: 1_000_000, 'held-out': 1_000_000 },
      async load(split: string, index: number) {
        const secret = 1 + ((index * 7919 + (split === 'train' ? 0 : 4999)) % highest);
        return await Promise.resolve({
          messages: [
            { role: 'user' as const, content: `Guess my number, from 1 to ${highest}. Answer with a number.` },
          ],
          tools: [],
          start: async () => await Promise.resolve({ state: { low: 1, high: highest, guesses: 0 } satisfies State }),

          stepIsPure: true,
          async step(_ctx: unknown, state: unknown, message: string) {
            const { low, high, guesses } = state as State;
            const guess = Number(/\d+/.exec(message)?.[0] ?? Number.NaN);
            const hint =
              guess === secret ? 'Right.' : guess < secret ? 'Higher.' : guess > secret ? 'Lower.' : 'Give a number.';
            const next = {
              low: guess < secret ? Math.max(low, guess + 1) : low,
              high: guess > secret ? Math.min(high, guess - 1) : high,
              guesses: guesses + 1,
            };
            const halved = next.high - next.low <= (high - low) / 2 && guess !== secret;
            const done = guess === secret || next.guesses >= most;
            const messages = [{ role: 'user' as const, content: hint }];
            return await Promise.resolve({ state: next, messages, done, reward: halved ? 0.05 : 0 });
          },

          async grade(_ctx: unknown, { answer, state }: { answer: string; state: unknown }) {
            const passed = Number(/\d+/.exec(answer)?.[0]) === secret;
            const { guesses } = state as State;
            const reason = passed ? `found in ${guesses} guesses` : `not found in ${guesses} guesses`;
            return await Promise.resolve({ code: 'graded' as const, reward: passed ? 1 : 0, passed, reason });
          },

          oracle: async () => await Promise.resolve([{ role: 'assistant' as const, content: String(secret) }]),
        });
      },
    }),
});
