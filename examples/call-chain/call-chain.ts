/**
 * Repositories that are too large to read whole, with a bug three calls away from its symptom: below it, or above it.
 * The option `tools` says whether the policy has `code_search` beside `search` and the editor.
 */

import { defineEnvironment, type Message, type Task, z } from 'longhaul';
import { questionOf, solution, TOOLS, type Arm } from './demonstrations.ts';
import { filesOf, pathOf, problemOf, type Problem, repaired } from './repository.ts';

const WORKDIR = '/work';
const MOST_BYTES = 1 << 16;

function taskOf(problem: Problem, arm: Arm): Task {
  const { direction, bug } = problem;
  return {
    family: direction,
    messages: [{ role: 'user', content: questionOf(problem, arm) }],
    tools: TOOLS[arm],
    sandboxes: {
      main: {
        workdir: WORKDIR,
        files: filesOf(problem),
        env: {},
        limits: { memoryMiB: 256, processes: 64, diskMiB: 32 },
      },
    },
    gradedIn: 'none',

    async collect(ctx) {
      const found = await (await ctx.sandbox()).read(pathOf(bug.file), MOST_BYTES);
      return found.kind === 'file' ? found.content : Buffer.from(found.kind);
    },

    async grade(_ctx, { artifact }) {
      const passed = Buffer.from(artifact).toString() === repaired(problem);
      const reason = passed ? 'the file is repaired' : `${pathOf(bug.file)} is not what it should be`;
      return await Promise.resolve({ code: 'graded', reward: Number(passed), passed, reason });
    },

    oracle: async () =>
      await Promise.resolve(
        solution(problem, arm).map((toolCalls): Message => ({ role: 'assistant', content: '', toolCalls })),
      ),
  };
}

const splits = { train: 1_000_000, 'held-out': 1_000_000 };

defineEnvironment({
  name: 'call-chain',
  options: z.strictObject({ tools: z.enum(['with', 'without']).default('with') }),
  open: async ({ tools }) =>
    await Promise.resolve({
      digest: 'call-chain 1',
      splits,
      load: async (split, n) => await Promise.resolve(taskOf(problemOf(split, n), tools)),
    }),
});
