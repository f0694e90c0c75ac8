/**
 * Word problems, answered in text as GSM8K's are. A wrong answer gets a hint, and another try. The verdict has parts:
 * the form, the steps that were right, and the result, worth less at each try. Use it with gsm-mini.yaml.
 */

import { defineEnvironment, type Message, type Task, z } from 'longhaul';
import { readSolution } from './feedback.ts';
import { type Problem, problemOf } from './problems.ts';

const BEFORE = { tries: 0, formats: 0, progress: 0, right: false };
type State = typeof BEFORE;
const WEIGHTS = { format: 0.1, progress: 0.2, outcome: 0.7 };

function taskOf(problem: Problem, most: number): Task {
  return {
    family: problem.family,
    messages: [{ role: 'user', content: problem.question }],
    tools: [],
    agent: { type: 'text' },
    start: async () => await Promise.resolve({ state: BEFORE }),

    async step(_ctx, state, message) {
      const before = state as State;
      const { format, progress, right, feedback } = readSolution(problem, message);
      const tries = before.tries + 1;
      const next: State = {
        tries,
        formats: before.formats + Number(format),
        progress: Math.max(before.progress, progress),
        right,
      };
      const messages: Message[] = right ? [] : [{ role: 'user', content: feedback }];
      return await Promise.resolve({ state: next, messages, done: right || tries >= most, metrics: { tries } });
    },

    async grade(_ctx, { state }) {
      const { tries, formats, progress, right } = state as State;
      // Worth less at each try: the tries of a rollout share its reward, wrong ones before a right one too.
      const outcome = right ? 1 - (tries - 1) / most : 0;
      const parts = { format: tries === 0 ? 0 : formats / tries, progress, outcome };
      const reward = WEIGHTS.format * parts.format + WEIGHTS.progress * progress + WEIGHTS.outcome * parts.outcome;
      const reason = `${right ? 'right' : 'wrong'} after ${tries} of ${most} tries`;
      return await Promise.resolve({ code: 'graded', reward, passed: right, reason, parts });
    },

    async oracle() {
      const lines = problem.steps.map(({ a, sign, b, value }) => `${a} ${sign} ${b} = ${value}`);
      return await Promise.resolve([
        { role: 'assistant', content: `${lines.join('\n')}\n#### ${problem.steps.at(-1)?.value}` },
      ]);
    },
  };
}

const options = z.strictObject({ tries: z.int().min(1).max(20).default(3) });
const splits = { train: 1_000_000, 'held-out': 1_000_000 };
const open = async ({ tries }: z.output<typeof options>) => {
  const load = async (split: string, n: number) => await Promise.resolve(taskOf(problemOf(split, n), tries));
  return await Promise.resolve({ digest: '1', splits, load });
};
defineEnvironment({ name: 'gsm-mini', options, open });
