/**
 * Hunts a plan that says nothing of prompts that fill the context, that opens a dataset once more to find out, or that
 * calls what a task would call.
 */
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { packageRoot } from '#setup/paths.mjs';
import { runCommandLine } from '../../cli/run.ts';

let dir: string;
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'longhaul-first-prompts-')));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const starter = join(packageRoot, 'examples', 'starter');

/** Task 1 has a prompt of some 400 tokens; `more` are further members of each task. */
function writeModule(more = ''): void {
  const lines = [
    "import { appendFileSync } from 'node:fs';",
    "import { defineEnvironment } from 'longhaul';",
    `const called = (what) => appendFileSync(${JSON.stringify(join(dir, 'called'))}, what + '\\n');`,
    'defineEnvironment({',
    "  name: 'words',",
    "  open: async () => { called('open'); return { digest: 'w', splits: { train: 50, test: 9 }, load: async (_s, i) => ({",
    "    messages: [{ role: 'user', content: 'word '.repeat(i === 1 ? 200 : 1) }],",
    '    tools: [],',
    "    grade: async () => ({ code: 'graded', reward: 1, passed: true, reason: '' }),",
    `    ${more}`,
    '  }) }; },',
    '});',
  ];
  writeFileSync(join(dir, 'words.ts'), lines.join('\n'));
}

async function plan(verb: 'train' | 'eval', config: object, ...more: string[]) {
  const file = join(dir, `${verb}.yaml`);
  writeFileSync(file, stringify({ modules: ['words.ts'], ...config }));
  let [out, err] = ['', ''];
  const code = await runCommandLine([verb, file, '--dry-run', ...more], {
    out: (text) => void (out += text),
    err: (text) => void (err += text),
    env: { ...process.env, LONGHAUL_HOME: join(dir, 'home') },
    cwd: dir,
    signal: new AbortController().signal,
  });
  return { code, out, err, file };
}
const called = () => readFileSync(join(dir, 'called'), 'utf8').trim().split('\n');
const evalOf = (maxContextTokens: number) => ({
  policies: [starter],
  tasks: { name: 'words', split: 'test' },
  agent: { maxContextTokens },
});

it('a plan counts the first prompts, names one that is too long, and says what counts more', async () => {
  writeModule();
  const run = {
    policy: { base: starter },
    task: { name: 'words' },
    agent: { maxContextTokens: 300 },
    batch: { tasks: 2 },
  };
  const { code, out, file } = await plan('train', run);
  expect(out).toMatch(/^prompts: 6 counted, the longest has \d+ of 300 tokens \(words-\w+-1\); 2 too long; /m);
  expect(out).toContain(`npx longhaul check ${file} counts more`);
  expect(out).toMatch(
    /words-train-1: the prompt has \d+ tokens, and the context of policy.base 300: .*maxContextTokens/,
  );
  expect(code).toBe(2);
  expect(called()).toEqual(['open']);
});

it('an eval’s plan does too, also beside its document; with room for all there is nothing wrong', async () => {
  writeModule();
  const long = await plan('eval', evalOf(300), '--json');
  expect([long.code, JSON.parse(long.out)]).toMatchObject([2, { tasks: { name: 'words', count: 9 } }]);
  expect(long.err).toMatch(/prompts: 3 counted, .*; 1 too long/);
  const { code, out } = await plan('eval', evalOf(1000));
  expect(out).toMatch(/^prompts: 3 counted, the longest has \d+ of 1000 tokens \(words-test-1\); npx longhaul check /m);
  expect(code).toBe(0);
});

it('what start says is left to check: a plan calls nothing of a task', async () => {
  writeModule(
    "start: async () => { called('start'); return { state: 0 }; }, step: async () => ({ state: 0, messages: [] }),",
  );
  const { code, out } = await plan('eval', evalOf(300));
  expect(out).toContain('prompts: none counted; npx longhaul check ');
  expect([code, called()]).toEqual([0, ['open']]);
});
