/** The environment `humaneval`: functions to complete, in the layout of OpenAI's HumanEval, graded by its tests. */

import { z } from 'zod';
import { openRecords, recordOptions } from '../data/record-options.ts';
import type { Environment, Task } from '../environment.ts';
import type { Bounds } from './candidate-sandbox.ts';
import { boundOptions } from './code-options.ts';
import { programsOf } from './extract-code.ts';
import { gradeByCalls } from './judged-calls.ts';

const record = z.object({
  task_id: z.union([z.string(), z.number()]).transform(String).optional(),
  /** The start of a program: imports, helpers, and the function's head with its description. */
  prompt: z.string().min(1),
  entry_point: z.string().regex(/^[\p{L}_][\p{L}\p{N}_]*$/u, 'give the name of a function'),
  /** Defines `check(candidate)`. */
  test: z.string().regex(/def\s+check\b/u, 'it must define check(candidate)'),
  canonical_solution: z.string().optional(),
});

const options = z.strictObject({
  ...recordOptions,
  ...boundOptions,
  /** For all calls of a problem's tests together. */
  seconds: z.number().min(0.1).max(600).default(10),
  /** What comes before the program that the policy continues. Empty: the program alone, as for base models. */
  instruction: z
    .string()
    .default('Complete the following Python function. Answer with the whole function in one block of code.'),
});

type Row = z.infer<typeof record>;

function taskOf(row: Row, instruction: string, bounds: Bounds): Task {
  const { prompt, entry_point: entry, test, canonical_solution: solution } = row;
  const content = instruction === '' ? prompt : `${instruction}\n\`\`\`python\n${prompt}\`\`\``;
  const tested = { helpers: prompt, reference: '', setup: '', tests: [test], entry };
  return {
    messages: [{ role: 'user', content }],
    tools: [],
    resources: { gradeSeconds: 3600 },
    grade: (ctx, { answer }) => gradeByCalls(programsOf(answer, prompt, entry), tested, bounds, ctx),
    ...(solution !== undefined && {
      oracle: async () => await Promise.resolve([{ role: 'assistant' as const, content: solution }]),
    }),
  };
}

export const humaneval: Environment<z.infer<typeof options>> = {
  name: 'humaneval',
  options,
  open: ({ data, fields, instruction, ...bounds }, io) =>
    openRecords(
      { data, fields },
      io,
      record,
      (row) => taskOf(row, instruction, bounds),
      (row) => row.task_id ?? row.entry_point,
    ),
};
