/**
 * Arithmetic by a tool: the policy calls `calculator`, which runs in the worker and changes nothing, and finishes with
 * what it says. A right answer that the calculator did not give does not pass. Use it with calculator.yaml.
 */

import { defineEnvironment, defineTool, type Message, type Task } from 'longhaul';
import { BadExpression, compute, LONGEST } from './arithmetic.ts';
import { type Problem, problemOf } from './problems.ts';

defineTool({
  name: 'calculator',
  description: 'Computes an expression of numbers, + - * / and brackets, exactly.',
  parameters: {
    expression: { type: 'string', description: `for example (12 + 30) * 4; at most ${LONGEST} characters` },
  },
  required: ['expression'],
  runs: 'worker',
  effect: 'none',
  async run(args) {
    try {
      return await Promise.resolve(compute(args.text('expression')));
    } catch (error) {
      if (error instanceof BadExpression) return `Error: ${error.message}.`;
      throw error;
    }
  },
});

const said = (name: string, args: Readonly<Record<string, string>>): Message => ({
  role: 'assistant',
  content: '',
  toolCalls: [{ name, arguments: args }],
});

function taskOf({ family, question, expression, answer }: Problem): Task {
  return {
    family,
    messages: [{ role: 'user', content: question }],
    tools: ['calculator', 'finish'],
    async grade(_ctx, { answer: given, transcript }) {
      const right = given.trim() === answer;
      const computed = transcript.some((said) => said.role === 'tool' && said.content.trim() === answer);
      const shown = JSON.stringify(given.slice(0, 40));
      const reason =
        right && !computed ? 'the calculator did not say so' : `the answer was ${shown}, and ${answer} is right`;
      const passed = right && computed;
      const parts = { tool: Number(computed), outcome: Number(right) };
      return await Promise.resolve({ code: 'graded', reward: Number(passed), passed, reason, parts });
    },
    oracle: async () => await Promise.resolve([said('calculator', { expression }), said('finish', { answer })]),
  };
}

const splits = { train: 1_000_000, 'held-out': 1_000_000 };
const load = async (split: string, n: number) => await Promise.resolve(taskOf(problemOf(split, n)));
defineEnvironment({ name: 'calculator', open: async () => await Promise.resolve({ digest: '1', splits, load }) });
