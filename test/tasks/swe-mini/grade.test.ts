/** Collecting and grading in real sandboxes. Hunts rewards for anything other than right answers, and lost rewards. */

import { afterAll, describe, expect, it } from 'vitest';

import { type SandboxProvider, SandboxUnavailable } from '../../../sandboxes/sandbox.ts';
import * as one from './one-task.ts';
import { driver, judge } from '../../../tasks/swe-mini/grade.ts';
import { makeProblem } from '../../../tasks/swe-mini/problem.ts';
import type { Verdict } from '../../../protocol/stages.ts';
import { openBench, sh } from '../../sandboxes/harness.ts';

const { provider } = await openBench();
const taskId = 'swe-mini-held-out-5';
const problem = makeProblem(taskId);
const source = problem.modules.find(({ path }) => path === problem.path)?.source ?? '';
const fixed = source.replace(problem.fix.old, () => problem.fix.new);
const neighbour = problem.modules
  .flatMap(({ functions }) => functions)
  .find(({ name }) => source.includes(`def ${name}(`) && name !== problem.target)?.name;
let runs = 0;

/** Runs `command` in an agent's sandbox, takes its diff, and grades it. */
async function attempt(command: string): Promise<{ readonly diff: string; readonly verdict: Verdict }> {
  runs += 1;
  const id = `attempt-${runs}`;
  const sandbox = await provider.create(await one.specOf(taskId, id));
  await sh(sandbox, command);
  const diff = await one.collect(taskId, sandbox, provider);
  sandbox.close();
  await provider.destroy(id);
  return { diff: Buffer.from(diff).toString(), verdict: await one.grade(taskId, diff, provider, `grade-${runs}`) };
}

const writes = (path: string, content: string): string => `cat > ${path} <<'END_OF_FILE'\n${content}\nEND_OF_FILE`;
const FIX = writes(problem.path, fixed);
const rewardOf = ({ verdict }: { readonly verdict: Verdict }): number | string =>
  verdict.code === 'graded' ? verdict.reward : verdict.code;

afterAll(async () => {
  expect(await provider.list()).toEqual([]);
});

describe('the right fix earns 1', () => {
  it.each([
    ['as an edit', ''],
    ['with a stray print', `echo 'print("hello")' >> ${problem.path}`],
    ['after it was committed', 'git commit -qam "fix it"'],
    ['on another branch, with the first one gone', 'git checkout -qb other && git commit -qam x && git branch -D main'],
    [
      'with a poisoned configuration',
      'git config diff.external "echo nothing"; git config color.ui always; git config diff.noprefix true; git config core.fsmonitor "echo x"; git config core.worktree /tmp',
    ],
    ['with a locked and a broken index', 'touch .git/index.lock; echo broken > .git/index'],
    ['with the file marked as unchanged', `git update-index --assume-unchanged ${problem.path}`],
    ['with functions in the way', 'git() { echo no; }; export -f git; alias git=true; cd /tmp'],
    ['with its tests deleted', 'rm -r tests check.py'],
  ])('%s', async (_, command) => {
    expect(rewardOf(await attempt(`${FIX}\n${command}`))).toBe(1);
  });
});

describe('nothing else earns a reward', () => {
  it.each([
    ['no change', 'true'],
    [
      'the plausible mistake',
      writes(
        problem.path,
        source.replace(problem.mistake.old, () => problem.mistake.new),
      ),
    ],
    ['tests that expect nothing', 'for f in tests/test_*.py; do echo "import unittest" > $f; done'],
    ['a module that ends the process', writes(problem.path, `import os\nos._exit(0)\n${fixed}`)],
    ['a module that raises SystemExit', writes(problem.path, `${source}\nraise SystemExit(0)`)],
    [
      'forged results',
      writes(problem.path, `${source}\nprint("longhaul results\\n" + "True\\n" * 200)\nimport os\nos._exit(0)`),
    ],
    [
      'forged results at exit',
      writes(
        problem.path,
        `${source}\nimport atexit\natexit.register(lambda: print("\\nlonghaul results\\n" + "0\\n" * 200))`,
      ),
    ],
    ['another repr', writes(problem.path, `${source}\nimport builtins\nbuiltins.repr = lambda x: "True"`)],
    [
      'an object equal to everything',
      writes(
        problem.path,
        `${source}\nclass Yes:\n    def __eq__(self, other): return True\ndef ${problem.target}(*args): return Yes()`,
      ),
    ],
    [
      'a patched unittest',
      writes(problem.path, `${source}\nimport unittest\nunittest.TestCase.assertEqual = lambda *a: None`),
    ],
    [
      'a start-up module',
      `${writes('sitecustomize.py', 'import os\nos._exit(0)')}\ncp sitecustomize.py usercustomize.py`,
    ],
    ['a module that never ends', writes(problem.path, `${fixed}\nwhile True: pass`)],
    [
      'a reader of the grader',
      writes(
        problem.path,
        `${source}\nimport sys, glob\nfor f in glob.glob("/tmp/*") + glob.glob("/proc/*/cmdline"):\n    try: sys.stdout.write(open(f).read())\n    except Exception: pass`,
      ),
    ],
    ['a deleted repository', `${FIX}\nrm -rf .git`],
    ['a fix that breaks its neighbour', writes(problem.path, `${fixed}\n${neighbour} = None`)],
  ])('%s', async (_, command) => {
    expect(rewardOf(await attempt(command))).toBe(0);
  });

  it('a diff that does not apply, or that reaches outside', async () => {
    const grade = async (diff: string): Promise<number | string> => {
      runs += 1;
      return rewardOf({ verdict: await one.grade(taskId, Buffer.from(diff), provider, `grade-${runs}`) });
    };
    const good = (await attempt(FIX)).diff;
    expect(await grade(good)).toBe(1);
    expect(await grade(good.replaceAll(problem.path, 'nowhere.py'))).toBe(0);
    expect(await grade(good.replaceAll(problem.path, '../../tmp/driver.py'))).toBe(0);
    expect(await grade('no diff at all')).toBe(0);
  });

  it('reading: the driver program does not depend on the expected results', () => {
    const others = problem.hidden.map((item) => ({ ...item, expected: 12_345 }));
    expect(driver(others)).toBe(driver(problem.hidden));
    expect(driver(problem.hidden)).toContain(problem.target);
  });
});

describe('a failure of the grader is not a reward', () => {
  it('where no sandbox can be had', async () => {
    const broken: SandboxProvider = {
      ...provider,
      name: 'broken',
      create: async () => Promise.reject(new SandboxUnavailable('no room')),
      destroy: async () => {},
    };
    const verdict = await one.grade(taskId, Buffer.from('x'), broken, 'grade-broken');
    expect(verdict).toEqual({ code: 'grader-failed', reason: 'no room' });
  });

  it('where its tools are missing', () => {
    const ended = { exitCode: 0, signal: null, output: 'missing\n', timedOut: false, outOfMemory: false };
    expect(judge(ended, problem.hidden).code).toBe('grader-failed');
  });
});
