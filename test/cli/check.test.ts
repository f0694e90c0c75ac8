/**
 * Hunts a check that calls bad data, a prompt that is too long or a broken grader good, or that does not say where the
 * fault is. `test/e2e/modules.test.ts` has tasks with sandboxes that pass.
 */
import { mkdtempSync, readdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { spread } from '../../cli/check/check-tasks.ts';
import { runCommandLine } from '../../cli/run.ts';

let dir: string;
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'longhaul-cli-check-')));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const write = (name: string, lines: readonly string[]) => writeFileSync(join(dir, name), `${lines.join('\n')}\n`);

/** Sums as questions; `grade` is an expression of `said` and `right`, and `more` further members of the task. */
function writeModule(grade = 'said === right', more = ''): void {
  write('sums.ts', [
    "import { defineEnvironment, readRecords, recordsDataset, z } from 'longhaul';",
    'let loads = 0;',
    'defineEnvironment({',
    "  name: 'sums',",
    '  options: z.strictObject({ file: z.string() }),',
    '  async open({ file }, io) {',
    "    const rows = await readRecords(io.path('file', file), z.object({ question: z.string(), sum: z.number() }));",
    '    return recordsDataset({ test: rows }, ({ question, sum }) => ({',
    "      messages: [{ role: 'user', content: question }],",
    '      tools: [],',
    '      grade: async (_ctx, { answer }) => {',
    '        const [said, right] = [answer, String(sum)];',
    `        const passed = ${grade};`,
    "        return { code: 'graded', reward: passed ? 1 : 0, passed, reason: `said ${said}, right is ${right}` };",
    '      },',
    "      oracle: async () => [{ role: 'assistant', content: String(sum) }],",
    `      ${more}`,
    '    }), ({ question }) => question);',
    '  },',
    '});',
  ]);
}

const rows = (...sums: unknown[]) => sums.map((sum, i) => JSON.stringify({ question: `${i} + ${i}?`, sum }));
const config = [
  'modules: [sums.ts]',
  'tasks: { name: sums, split: test, count: 3, options: { file: sums.jsonl } }',
  'policies: [oracle]',
];

interface Checked {
  readonly sources: ReadonlyArray<{ bad: number; problems: ReadonlyArray<Record<string, unknown>> }>;
  readonly graders: { withoutOracle: number; policies: unknown; wrong: ReadonlyArray<Record<string, unknown>> } | null;
  readonly prompts: {
    counted: number;
    longest: { tokens: number };
    tooLong: ReadonlyArray<{ task: string; message: string }>;
    uncounted: { tasks: number; message: string } | null;
  } | null;
  readonly error?: { message: string };
}

async function check(...args: string[]): Promise<{ code: number; document: Checked; text: string }> {
  let [out, text] = ['', ''];
  const around = {
    err: (said: string) => void (text += said),
    env: { ...process.env, LONGHAUL_HOME: join(dir, '.longhaul') },
    cwd: dir,
    signal: new AbortController().signal,
  };
  const code = await runCommandLine(['check', 'check.yaml', ...args, '--json'], {
    ...around,
    out: (said) => void (out += said),
  });
  return { code, document: JSON.parse(out) as Checked, text };
}

it('good data and a good grader pass, and nothing is left behind', async () => {
  writeModule();
  write('sums.jsonl', rows(0, 2, 4));
  write('check.yaml', config);
  const { code, document } = await check('--oracle');
  expect(document).toMatchObject({
    kind: 'eval',
    modules: { paths: [join(dir, 'sums.ts')] },
    sources: [{ source: 'sums', bad: 0, splits: [{ split: 'test', tasks: 3, loaded: 3 }] }],
    graders: {
      policies: [
        { policy: 'oracle', expected: 1, rollouts: 3, right: 3 },
        { policy: 'empty', expected: 0, rollouts: 3, right: 3 },
      ],
      wrong: [],
    },
  });
  expect(code).toBe(0);
  expect(readdirSync(dir).toSorted()).toEqual(['check.yaml', 'sums.jsonl', 'sums.ts']);
});

it('the first bad record is named by file, number and field', async () => {
  writeModule();
  write('sums.jsonl', rows(0, 'two', 4));
  write('check.yaml', config);
  const { code, document } = await check();
  expect(document.sources[0]).toMatchObject({
    bad: 1,
    problems: [{ source: 'sums', file: join(dir, 'sums.jsonl'), number: 2, field: 'sum' }],
  });
  expect(code).toBe(2);
});

it('several bad records are named together, each by file, number and field', async () => {
  writeModule();
  write('sums.jsonl', [...rows(0, 'two', 4, null), '{', ...rows(6)]);
  write('check.yaml', config);
  const { document } = await check();
  const file = join(dir, 'sums.jsonl');
  expect(document.sources[0]).toMatchObject({
    bad: 3,
    problems: [
      { file, number: 2, field: 'sum', message: expect.not.stringContaining('more') as string },
      { file, number: 4, field: 'sum' },
      { file, number: 5, field: '' },
    ],
  });
});

it.each([
  ['file: 7', 'file', 'task.options.file: 7 cannot be used; give a string'],
  ['fil: sums.jsonl', 'fil', 'remove it, there is no such option; did you mean file?'],
  ['{ fil: sums.jsonl }', 'fil', 'remove it, there is no such option; did you mean file?'],
  ['{}', 'file', 'give a string'],
])('an option %s that the schema refuses is named with its remedy', async (options, field, said) => {
  writeModule();
  write('sums.jsonl', rows(0));
  const given = options.startsWith('{')
    ? options
    : `{ file: sums.jsonl, ${options} }`.replace('file: sums.jsonl, file', 'file');
  write('check.yaml', [config[0]!, `tasks: { name: sums, split: test, count: 1, options: ${given} }`, config[2]!]);
  const { code, document } = await check();
  expect(code).toBe(2);
  expect(document.error).toMatchObject({ field: expect.stringContaining(`options.${field}`) as string });
  expect(document.error?.message).toContain(said.replace('task.', ''));
});

it('a file of data without a record is bad, and named', async () => {
  writeModule();
  write('sums.jsonl', []);
  write('check.yaml', config);
  const { code, document } = await check();
  expect(document.sources[0]).toMatchObject({
    bad: 1,
    problems: [{ file: join(dir, 'sums.jsonl'), message: expect.stringContaining('has no records') as string }],
  });
  expect(code).toBe(2);
});

it.each([
  ['undefined', 'open of environment sums returned undefined: return a dataset, { digest, splits, load } or '],
  ['{ splits: { test: 1 }, load() {} }', 'open of environment sums returned the digest undefined: give a text '],
  ["{ digest: 'd', splits: { test: undefined }, load() {} }", 'returned undefined tasks of split test: give a whole '],
  ["{ digest: 'd', splits: ['test'], load() {} }", 'returned the splits ["test"]: give the number of tasks '],
  ["{ digest: 'd', splits: { test: 1 } }", 'returned the load undefined: give a function (split, index) of a task'],
  ['recordsDataset({ test: [{ question: 1 }] })', 'was given a list for split test: give what readRecords or '],
  ['recordsDataset({ test: undefined })', 'was given no records for split test: give what readRecords or '],
])('an environment whose open returns %s is named with what to return', async (returned, message) => {
  write('sums.ts', [
    "import { defineEnvironment, recordsDataset, z } from 'longhaul';",
    `defineEnvironment({ name: 'sums', options: z.object({}), open: async () => (${returned}) });`,
  ]);
  write('check.yaml', config);
  const { code, document } = await check();
  const problems = [{ message: expect.stringContaining(message) as string }];
  expect(document.sources[0]).toMatchObject({ bad: 1, problems });
  expect(code).toBe(2);
});

it('each task that does not load is named, with the place of what threw', async () => {
  writeModule(
    'true',
    'agent: sum === 2 ? { type: "no-such-agent" } : undefined, tools: sum === 4 ? ["no-such-tool"] : [],',
  );
  write('sums.jsonl', rows(0, 2, 4));
  write('check.yaml', config);
  const { code, document } = await check('--oracle');
  expect(document.sources[0]).toMatchObject({
    bad: 2,
    problems: [
      { task: 'sums-test-1', label: '1 + 1?', message: expect.stringContaining('no agent no-such-agent') as string },
      { task: 'sums-test-2', label: '2 + 2?', message: expect.stringContaining('no tool no-such-tool') as string },
    ],
  });
  expect([code, document.graders]).toEqual([2, null]);
});

it('a task that differs from load to load is refused: each worker would have another one', async () => {
  writeModule('true', 'family: String((loads += 1)),');
  write('sums.jsonl', rows(0));
  write('check.yaml', config);
  const { code, document } = await check('--set', 'tasks.count=1');
  expect(document.sources[0]?.problems).toMatchObject([
    { task: 'sums-test-0', message: expect.stringMatching(/another one when it is loaded again/) as string },
  ]);
  expect(code).toBe(2);
});

it.each<[string, string, string, Record<string, unknown>]>([
  ['gives an empty answer a reward', 'true', '', { policy: 'empty', reward: 1, message: 'said , right is 0' }],
  ['gives a gold solution none', 'false', '', { policy: 'oracle', reward: 0, message: 'said 0, right is 0' }],
  [
    'throws',
    "said === '' ? JSON.parse('{') : true",
    '',
    {
      policy: 'empty',
      reward: null,
      failure: 'grader-failed',
      message: expect.stringMatching(/SyntaxError.*sums\.ts:13\)/) as string,
    },
  ],
  [
    'is never reached: step throws',
    'true',
    "start: async () => ({ state: 0 }), step: async () => { throw new RangeError('no step'); },",
    {
      policy: 'oracle',
      reward: null,
      failure: 'environment-failed',
      message: expect.stringMatching(/RangeError: no step \(.*sums\.ts:17\)/) as string,
    },
  ],
])('a grader that %s fails the check', async (_, grade, more, wrong) => {
  writeModule(grade, more);
  write('sums.jsonl', rows(0));
  write('check.yaml', config);
  const { code, document } = await check('--oracle', '--set', 'tasks.count=1');
  expect(document.graders?.wrong).toContainEqual({ task: 'sums-test-0', turns: 1, failure: null, ...wrong });
  expect(code).toBe(1);
});

it('a grader that never answers fails the check after gradeSeconds, which the message names', async () => {
  writeModule('await new Promise(() => undefined)', 'resources: { gradeSeconds: 1 },');
  write('sums.jsonl', rows(0));
  write('check.yaml', config);
  const { code, document } = await check('--oracle', '--set', 'tasks.count=1');
  expect(document.graders?.wrong).toMatchObject(
    ['oracle', 'empty'].map((policy) => ({
      policy,
      reward: null,
      failure: 'grader-failed',
      message: 'grade of sums-test-0 took longer than gradeSeconds (1)',
    })),
  );
  expect(code).toBe(1);
});

it('an interrupt ends a check whose grader never answers, and does not speak of work that continues', async () => {
  writeModule('(globalThis.graderOfCheckRuns?.(), await new Promise(() => undefined))');
  write('sums.jsonl', rows(0));
  write('check.yaml', config);
  const interrupt = new AbortController();
  Object.assign(globalThis, { graderOfCheckRuns: () => interrupt.abort() });
  let text = '';
  const code = await runCommandLine(['check', 'check.yaml', '--oracle', '--set', 'tasks.count=1'], {
    out: () => undefined,
    err: (said) => void (text += said),
    env: { ...process.env, LONGHAUL_HOME: join(dir, '.longhaul') },
    cwd: dir,
    signal: interrupt.signal,
  });
  expect([code, text]).toEqual([130, expect.stringContaining('interrupted; nothing of check continues')]);
});

/** A policy that is here, and reads the tasks. */
const READ = ['--set', 'policies=[starter]', '--set', 'agent.maxContextTokens=500'];
const LONG = JSON.stringify('word '.repeat(200));

it('a prompt that fills the context of a policy is named with its tokens, the limit and the remedy', async () => {
  writeModule();
  write('sums.jsonl', [...rows(0), `{"question":${LONG},"sum":1}`, ...rows(2)]);
  write('check.yaml', config);
  const { code, document } = await check(...READ);
  expect(document.prompts).toMatchObject({
    counted: 3,
    longest: { task: 'sums-test-1', limit: 500 },
    tooLong: [{ task: 'sums-test-1', policy: 'policies.starter', tokens: document.prompts?.longest.tokens }],
  });
  expect(document.prompts?.tooLong[0]?.message).toMatch(
    /^the prompt has \d+ tokens, and the context of policies\.starter 500: .*raise the context \(agent\.maxCont/,
  );
  expect(code).toBe(2);
  const short = await check(...READ, '--set', 'agent.maxContextTokens=1000');
  expect([short.code, short.document.prompts?.tooLong]).toEqual([0, []]);
});

it('messages of start are counted, and a start that fails is named', async () => {
  writeModule(
    'true',
    `start: async () => { if (sum === 2) throw new Error('no'); return { state: 0, messages: [
        { role: 'user', content: ${LONG} }] }; }, step: async () => ({ state: 0, messages: [], done: true }),`,
  );
  write('sums.jsonl', rows(0, 2, 4));
  write('check.yaml', config);
  const { code, document } = await check(...READ);
  expect(document.prompts).toMatchObject({
    tooLong: [{ task: 'sums-test-0' }, { task: 'sums-test-2' }],
    uncounted: { tasks: 1, message: expect.stringContaining('sums-test-1: ') as string },
  });
  expect(code).toBe(2);
});

it('a prompt that a sandbox makes too long is found where its task is rolled out', async () => {
  writeModule(
    'said === right',
    `sandboxes: { main: { workdir: '/work', files: [], env: {},
        limits: { memoryMiB: 256, processes: 32, diskMiB: 16 } } },
      start: async (ctx) => {
        const made = await (await ctx.sandbox()).exec({ callId: ctx.id, command: 'printf "word %.0s" {1..600}',
          timeoutMs: 60000, outputLimit: 100000 });
        return { state: 0, messages: [{ role: 'user', content: made.output }] };
      },`,
  );
  write('sums.jsonl', rows(0));
  write('check.yaml', config);
  const one = [...READ, '--set', 'tasks.count=1'];
  const plain = await check(...one);
  expect([plain.code, plain.document.prompts]).toMatchObject([0, { counted: 0, tooLong: [] }]);
  const rolled = await check('--oracle', ...one);
  expect(rolled.document.prompts).toMatchObject({ counted: 1, tooLong: [{ task: 'sums-test-0' }] });
  expect(rolled.document.graders?.wrong).toEqual([]);
  expect(rolled.code).toBe(2);
});

it('a module that was edited is loaded as it is now, without a restart of anything', async () => {
  write('sums.jsonl', rows(0));
  write('check.yaml', config);
  writeModule('false');
  expect((await check('--oracle', '--set', 'tasks.count=1')).code).toBe(1);
  writeModule();
  expect((await check('--oracle', '--set', 'tasks.count=1')).code).toBe(0);
  writeModule('said ===== right');
  const broken = await check();
  expect([broken.code, broken.document.error?.message]).toEqual([
    2,
    expect.stringMatching(/^modules: .*sums\.ts:13\)/),
  ]);
});

it('positions are spread over all tasks, with the first and the last', () => {
  expect([spread(5, 3, 10), spread(0, 100, 5), spread(7, 100, 1)]).toEqual([[5, 6, 7], [0, 25, 50, 74, 99], [7]]);
});
