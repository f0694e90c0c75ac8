/**
 * The environment `lcb`: problems of contests, graded by SkyRL-Gym's rules. The code in the answer's last fenced block
 * runs on each test in a sandbox, and every test must give what is expected. Outputs are compared in the worker.
 */

import { z } from 'zod';
import type { Message } from '../../protocol/message.ts';
import type { Verdict } from '../../protocol/stages.ts';
import { openRecords, recordOptions } from '../data/record-options.ts';
import type { Environment, Task, TaskContext } from '../environment.ts';
import {
  answersIn,
  type Bounds,
  type Candidate,
  errorIn,
  gradeCandidate,
  whyEnded,
  zero,
} from './candidate-sandbox.ts';
import { allBlocks, gradePythonTests, nearlySameOutput, type PythonTests, pythonTestsIn } from './coder1.ts';
import { readExpected, sameOutput, sameValue } from './compare-outputs.ts';
import { boundOptions, messagesOf, prompts } from './code-options.ts';
import { lastBlock } from './extract-code.ts';

const lines = z.union([z.string(), z.array(z.string()).transform((all) => all.join('\n'))]);

const test = z.object({
  input: lines,
  output: lines,
  testtype: z.string().optional(),
  metadata: z.object({ func_name: z.string().nullish() }).nullish(),
});

/** The layout of APPS and TACO. */
const columns = z
  .object({ inputs: z.array(lines), outputs: z.array(lines), fn_name: z.string().nullish() })
  .refine(({ inputs, outputs }) => inputs.length === outputs.length, 'inputs and outputs must have the same length');

/** The tests of a problem. */
export interface Tests {
  /** Absent: the tests are of standard input. */
  readonly function?: string;
  /** In tests of a function, a line of JSON for each argument. */
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
}

const isJson = (text: string): boolean => {
  try {
    readExpected(text);
    return true;
  } catch {
    return false;
  }
};

function testsOf(given: z.infer<typeof listed>, ctx: z.RefinementCtx): Tests {
  const refuse = (message: string): never => {
    ctx.addIssue({ code: 'custom', message });
    return z.NEVER;
  };
  const isList = Array.isArray(given);
  const inputs = isList ? given.map(({ input }) => input) : given.inputs;
  const outputs = isList ? given.map(({ output }) => output) : given.outputs;
  if (inputs.length === 0) return refuse('give at least one test');
  // As in SkyRL-Gym, the first test says it for all.
  const isCalled = isList ? given[0]?.testtype === 'functional' : Boolean(given.fn_name);
  if (!isCalled) return { inputs, outputs };
  const name = isList ? given[0]?.metadata?.func_name : given.fn_name;
  if (!name) return refuse('metadata.func_name of the first test must name the function');
  const bad = inputs.findIndex((input) => !input.split('\n').every(isJson));
  if (bad >= 0) return refuse(`test ${bad}: each line of input must be JSON`);
  const wrong = outputs.findIndex((output) => !isJson(output));
  if (wrong >= 0) return refuse(`test ${wrong}: output must be JSON`);
  return { function: name, inputs, outputs };
}

const listed = z.union([z.array(test), columns], {
  error: 'give a list of tests with input and output, or an object with inputs and outputs',
});

/** Tests as a list, as columns, or as the JSON text of either. */
export const tests = z
  .preprocess((given, ctx) => {
    if (typeof given !== 'string') return given;
    try {
      return JSON.parse(given) as unknown;
    } catch (error) {
      ctx.addIssue({ code: 'custom', message: `the tests must be JSON: ${(error as Error).message}` });
      return z.NEVER;
    }
  }, listed)
  .transform(testsOf);

/** Tests with inputs and outputs, or in Python. */
const truth = z.unknown().transform((given, ctx): Tests | PythonTests | undefined => {
  if (given === undefined || given === null) return undefined;
  const python = pythonTestsIn(given);
  if (python !== undefined) return python;
  const parsed = tests.safeParse(given);
  if (parsed.success) return parsed.data;
  for (const { message, path } of parsed.error.issues) ctx.addIssue({ code: 'custom', message, path: [...path] });
  return z.NEVER;
});

/** What SkyRL's records have before the code that tests follow. */
function prefixIn(extra: unknown): string {
  const given = typeof extra === 'object' && extra !== null && 'prefix' in extra ? extra.prefix : '';
  return typeof given === 'string' ? given : '';
}

const record = z
  .object({
    prompt: prompts,
    tests: truth.optional(),
    reward_spec: z.object({ ground_truth: truth }).optional(),
    extra_info: z.unknown().optional(),
    solution: z.string().nullish(),
  })
  .transform(({ prompt, tests: own, reward_spec: spec, extra_info: extra, solution }, ctx) => {
    const found = own ?? spec?.ground_truth;
    if (found !== undefined) return { prompt, tests: found, prefix: prefixIn(extra), solution };
    ctx.addIssue({ code: 'custom', path: ['reward_spec', 'ground_truth'], message: 'it is missing' });
    return z.NEVER;
  });

const options = z.strictObject({
  ...recordOptions,
  ...boundOptions,
  seconds: z.number().min(0.1).max(600).default(6),
  /** `coder1`: SkyRL-Agent's rules, for standard input and for tests in Python. */
  verdict: z.enum(['skyrl', 'coder1']).default('skyrl'),
});

/** How code is found in an answer, and its output compared. */
interface Rules {
  readonly code: (answer: string) => string | undefined;
  readonly same: (given: string, expected: string) => boolean;
}

const RULES: Readonly<Record<z.output<typeof options>['verdict'], Rules>> = {
  skyrl: { code: lastBlock, same: sameOutput },
  coder1: { code: allBlocks, same: nearlySameOutput },
};

/** Tests of one run: the first ones find most wrong programs. */
const FIRST_RUN = 3;
const MOST_IN_RUN = 12;
const MOST_BYTES_IN_RUN = 8 << 20;
const LEAST_OUTPUT = 1 << 20;

/** Test numbers at which runs start, and the end. */
function runsOf(outputs: readonly string[]): number[] {
  const starts = [0];
  let bytes = 0;
  for (const [i, output] of outputs.entries()) {
    const begun = starts.at(-1) ?? 0;
    const isFull =
      i - begun >= (starts.length === 1 ? FIRST_RUN : MOST_IN_RUN) || bytes + output.length > MOST_BYTES_IN_RUN;
    if (isFull && i > begun) {
      starts.push(i);
      bytes = 0;
    }
    bytes += output.length;
  }
  return [...starts, outputs.length];
}

const solved = (count: number): Verdict => ({
  code: 'graded',
  reward: 1,
  passed: true,
  reason: count === 1 ? '1 test' : `all ${count} tests`,
});

async function gradeStdin(
  candidate: Candidate,
  { outputs }: Tests,
  { seconds }: Bounds,
  { same }: Rules,
): Promise<Verdict> {
  const starts = runsOf(outputs);
  for (const [k, first] of starts.slice(0, -1).entries()) {
    const last = starts[k + 1] ?? first;
    const said = new Map((await candidate.run(first, last)).map((line) => [line['test'], line] as const));
    for (let i = first; i < last; i += 1) {
      const line = said.get(i);
      const output = line?.['output'];
      if (line === undefined || line['ended'] !== 'ok' || typeof output !== 'string')
        return zero(`test ${i}: the program ${whyEnded(line ?? {}, seconds)}`);
      if (!same(output, outputs[i] ?? '')) return zero(`test ${i}: the output is wrong`);
    }
  }
  return solved(outputs.length);
}

async function gradeCalls(
  candidate: Candidate,
  { function: name, inputs, outputs }: Tests,
  isClass: boolean,
  { seconds }: Bounds,
) {
  const make = isClass ? [{ do: 'call', on: { name: 'Solution' }, args: [], kwargs: {} }] : [];
  const on = isClass ? { at: 0, path: [name] } : { name };
  await candidate.calls([...make, ...inputs.map((input) => ({ do: 'call', on, lines: input.split('\n') }))]);
  const { answers, end } = answersIn(await candidate.run());
  const [loaded, ...given] = answers;
  if (loaded?.['loaded'] !== true) return zero(`the code does not run: ${errorIn(loaded) ?? whyEnded(end, seconds)}`);
  if (make.length > 0 && errorIn(given[0]) !== undefined) return zero(`Solution(): ${errorIn(given[0])}`);
  for (const [i, output] of outputs.entries()) {
    const answer = given[i + make.length];
    if (answer === undefined) return zero(`test ${i}: the code ${whyEnded(end, seconds)}`);
    const error = errorIn(answer);
    if (error !== undefined) return zero(`test ${i}: ${error}`);
    if (!sameValue(answer['value'], readExpected(output))) return zero(`test ${i}: the result is wrong`);
  }
  return solved(outputs.length);
}

/** The verdict on an answer. */
export async function gradeLcb(
  answer: string,
  problem: Tests,
  bounds: Bounds,
  { provider, id }: Pick<TaskContext, 'provider' | 'id'>,
  rules: Rules = RULES.skyrl,
): Promise<Verdict> {
  const code = rules.code(answer);
  if (code === undefined) return zero('there is no code in a fence');
  const mostBytes = Math.max(LEAST_OUTPUT, 2 * Math.max(...problem.outputs.map(({ length }) => length)) + 65_536);
  if (problem.function === undefined) {
    const job = { kind: 'stdin', source: code, inputs: problem.inputs, mostBytes } as const;
    return gradeCandidate(job, bounds, provider, `${id}-code`, (candidate) =>
      gradeStdin(candidate, problem, bounds, rules),
    );
  }
  const isClass = code.includes('class Solution');
  const job = { kind: 'calls', sources: [code], prelude: true, each: true, mostBytes } as const;
  return gradeCandidate(job, bounds, provider, `${id}-code`, (candidate) =>
    gradeCalls(candidate, problem, isClass, bounds),
  );
}

function taskOf(row: z.infer<typeof record>, bounds: Bounds, rules: Rules): Task {
  const { prompt, tests: problem, prefix, solution } = row;
  const messages: readonly Message[] = messagesOf(prompt);
  return {
    messages,
    tools: [],
    resources: { gradeSeconds: 3600 },
    grade: (ctx, { answer }) =>
      'source' in problem
        ? gradePythonTests(answer, problem, prefix, bounds, ctx)
        : gradeLcb(answer, problem, bounds, ctx, rules),
    ...(solution && {
      oracle: async () => {
        const content = lastBlock(solution) === undefined ? `\`\`\`python\n${solution}\n\`\`\`` : solution;
        return await Promise.resolve([{ role: 'assistant' as const, content }]);
      },
    }),
  };
}

export const lcb: Environment<z.infer<typeof options>> = {
  name: 'lcb',
  options,
  open: ({ data, fields, verdict, ...bounds }, io) =>
    openRecords(
      { data, fields },
      io,
      record.refine((row) => verdict === 'coder1' || !('source' in row.tests), {
        path: ['tests'],
        error: 'tests in Python (functional, solution_file, pytest) need the option verdict: coder1',
      }),
      (row) => taskOf(row, bounds, RULES[verdict]),
    ),
};
