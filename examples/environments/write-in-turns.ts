/**
 * A text of several lines. The word for the next line is told once; then the policy must summarise, and continues with
 * the task and its summary alone, so the summary must have the word. Use it with write-in-turns.yaml.
 */

import { defineEnvironment, type Task, z } from 'longhaul';

const WORDS = ['apple', 'bridge', 'candle', 'desert', 'engine', 'forest', 'garden', 'harbor', 'island', 'jacket'];
const wordOf = (index: number, line: number): string => WORDS[(index * 7 + line * 3) % WORDS.length] ?? 'apple';
const user = (content: string) => ({ role: 'user' as const, content });
const said = (content: string) => ({ role: 'assistant' as const, content });

interface State {
  readonly lines: readonly string[];
}

function taskOf(index: number, lines: number, summaryAt: number): Task {
  const next = (line: number) => `Line ${line + 1} must have the word ${wordOf(index, line)}.`;
  const rule =
    `Write a text of ${lines} lines of at most 60 characters, one line in each message. ` + 'Each has its own word.';
  return {
    messages: [user(`${rule} ${next(0)}`)],
    tools: [],
    agent: { type: 'text', options: { summary: { atTokens: summaryAt } } },
    start: async () => await Promise.resolve({ state: { lines: [] } satisfies State }),

    stepIsPure: true,
    async step(_ctx, state, message) {
      const written = [...(state as State).lines, message];
      const done = written.length >= lines;
      return await Promise.resolve({ state: { lines: written }, messages: [user(next(written.length))], done });
    },

    async grade(_ctx, { state }) {
      const written = (state as State).lines;
      const share = (isRight: (line: string, i: number) => boolean) => written.filter(isRight).length / lines;
      const parts = {
        words: share((line, i) => line.includes(wordOf(index, i))),
        short: share((line) => line.trim() !== '' && line.length <= 60),
      };
      const reward = (parts.words + parts.short) / 2;
      const reason = `${written.length} of ${lines} lines`;
      return await Promise.resolve({ code: 'graded', reward, passed: reward === 1, reason, parts });
    },

    // After every line but the last the policy is asked for a summary.
    oracle: async () =>
      await Promise.resolve(
        Array.from({ length: lines }, (_, i) => [said(`A ${wordOf(index, i)}.`), said(next(i + 1))])
          .flat()
          .slice(0, -1),
      ),
  };
}

const options = z.strictObject({ lines: z.int().min(1).default(3), summaryAt: z.int().min(1).default(30) });
const splits = { train: 1_000_000, 'held-out': 1_000_000 };
const open = async ({ lines, summaryAt }: z.output<typeof options>) => {
  const load = async (_split: string, index: number) => await Promise.resolve(taskOf(index, lines, summaryAt));
  return await Promise.resolve({ digest: '1', splits, load });
};
defineEnvironment({ name: 'write-in-turns', options, open });
