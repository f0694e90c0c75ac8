/**
 * The environment `mbpp`: functions by a sentence and examples, in the layout of Google's MBPP, graded by its tests.
 */

import { z } from 'zod';
import { openRecords, recordOptions } from '../data/record-options.ts';
import type { Environment, Task } from '../environment.ts';
import type { Bounds } from './candidate-sandbox.ts';
import { boundOptions } from './code-options.ts';
import { programOf } from './extract-code.ts';
import { gradeByCalls } from './judged-calls.ts';

/** Files of MBPP have the line ends of Windows. */
const text = z.string().transform((given) => given.replaceAll('\r\n', '\n'));

const record = z.object({
  task_id: z.union([z.string(), z.number()]).transform(String),
  text: text.optional(),
  /** The sentence's name in the sanitized file. */
  prompt: text.optional(),
  code: text.optional(),
  test_setup_code: text.nullish().transform((given) => given ?? ''),
  /** Of the sanitized file. */
  test_imports: z.array(text).default([]),
  test_list: z.array(text).min(1, 'give at least one test'),
  challenge_test_list: z.array(text).default([]),
});

const options = z.strictObject({
  ...recordOptions,
  ...boundOptions,
  /** For all calls of a problem's tests together. */
  seconds: z.number().min(0.1).max(600).default(10),
  /** True: the tests of `challenge_test_list` count too. The policy does not see them. */
  challenge: z.boolean().default(false),
});

type Row = z.infer<typeof record>;

function taskOf(row: Row, challenge: boolean, bounds: Bounds): Task {
  const { code, test_setup_code: own, test_imports: imports, test_list: shown } = row;
  const sentence = row.text ?? row.prompt ?? '';
  const setup = [...imports, own].join('\n');
  const tests = [...shown, ...(challenge ? row.challenge_test_list : [])];
  const tested = { helpers: '', reference: code ?? '', setup, tests, entry: '' };
  const content = [
    'You are an expert Python programmer, and here is your task:',
    sentence,
    'Your code should pass these tests:',
    ...(own === '' ? [] : [own]),
    ...shown,
    '\nAnswer with the code in one block.',
  ].join('\n');
  return {
    messages: [{ role: 'user', content }],
    tools: [],
    resources: { gradeSeconds: 3600 },
    grade: (ctx, { answer }) => gradeByCalls([programOf(answer)], tested, bounds, ctx),
    ...(code !== undefined && {
      oracle: async () =>
        await Promise.resolve([{ role: 'assistant' as const, content: `\`\`\`python\n${code}\n\`\`\`` }]),
    }),
  };
}

export const mbpp: Environment<z.infer<typeof options>> = {
  name: 'mbpp',
  options,
  open: ({ data, fields, challenge, ...bounds }, io) =>
    openRecords(
      { data, fields },
      io,
      record,
      (row) => taskOf(row, challenge, bounds),
      (row) => row.task_id,
    ),
};
