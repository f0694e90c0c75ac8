/**
 * A custom environment with a custom tool: how many lines of a log are errors? Copy this file to a folder of yours, and
 * train on it with `modules: [count-errors.ts]` and `task: { name: count-errors }` in a run's configuration.
 */

import { defineEnvironment, defineTool, type Task } from 'longhaul';

const WORKDIR = '/logs';
const ANSWER = `${WORKDIR}/answer.txt`;
const LINES = 400;

/** The log depends on split and index alone, so that every worker makes the same log. */
function logOf(key: string): string[] {
  let state = Buffer.from(key).reduce((sum, byte) => (Math.imul(sum, 31) + byte) >>> 0, 7);
  const draw = (n: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
  return Array.from(
    { length: LINES },
    (_, i) => `${i} ${['INFO', 'INFO', 'WARN', 'ERROR'][draw(4)]} request ${draw(1000)} took ${draw(500)} ms`,
  );
}

defineTool({
  name: 'answer',
  description: 'Writes the answer down; a later one takes the place of an earlier one.',
  parameters: { count: { type: 'integer', description: 'How many.' } },
  required: ['count'],
  async run(args, sandbox, { callId }) {
    const count = args.integer('count') ?? 0;
    // The policy receives this error as the answer, and its call is not executed.
    if (count < 0) throw args.wrong('count', 'must be 0 or more.');
    const note = `The answer is ${count}.`;
    const { error } = await sandbox.write({ callId, path: ANSWER, content: Buffer.from(`${count}\n`), note });
    return error ?? note;
  },
});

function makeTask(log: readonly string[]): Task {
  const right = log.filter((line) => line.includes(' ERROR ')).length;
  return {
    family: 'count',
    messages: [
      {
        role: 'user',
        content:
          `How many lines of ${WORKDIR}/server.log have the level ERROR? Give the number by the tool answer, ` +
          'then finish.',
      },
    ],
    tools: ['bash', 'answer', 'finish'],

    // With Docker a task may name its own `image`, a `profile` and `cpus`.
    sandboxes: {
      main: {
        workdir: WORKDIR,
        files: [{ path: 'server.log', content: `${log.join('\n')}\n` }],
        env: {},
        limits: { memoryMiB: 256, processes: 64, diskMiB: 32 },
      },
    },

    async collect(ctx) {
      const sandbox = await ctx.sandbox();
      const found = await sandbox.read(ANSWER, 100);
      return found.kind === 'file' ? found.content : Buffer.alloc(0);
    },

    // A grader that must run something asks for a fresh sandbox: `await ctx.sandbox()`.
    async grade(_ctx, { artifact }) {
      const answer = Buffer.from(artifact).toString().trim();
      const passed = answer === String(right);
      const reason = answer === '' ? 'no answer was given' : `the answer was ${answer}, and ${right} is right`;
      return await Promise.resolve({ code: 'graded', reward: passed ? 1 : 0, passed, reason });
    },

    // A gold solution, for `npx longhaul check --oracle`: it must score 1.
    async oracle() {
      const call = { name: 'answer', arguments: { count: right } };
      return await Promise.resolve([{ role: 'assistant', content: '', toolCalls: [call] }]);
    },
  };
}

defineEnvironment({
  name: 'count-errors',

  async open() {
    return await Promise.resolve({
      digest: 'count-errors 1',
      splits: { train: 1_000_000, 'held-out': 1_000_000 },
      load: async (split: string, index: number) =>
        await Promise.resolve(makeTask(logOf(`count-errors-${split}-${index}`))),
    });
  },
});
