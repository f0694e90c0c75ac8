/** A rollout of a small instance in real sandboxes: what the agent may see, what is taken, and how it is graded. */

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';

import { openBench, type Bench } from '../../sandboxes/harness.ts';
import { ID, makePlace, openTask, type Place, Rollout } from './synthetic.ts';

let bench: Bench;
let place: Place;
let count = 0;

beforeAll(async () => {
  bench = await openBench();
  place = makePlace();
});

async function begin(options: Readonly<Record<string, unknown>> = {}, at = place): Promise<Rollout> {
  count += 1;
  const id = `swe-${count}`;
  return await Rollout.start(await openTask(at, options), bench.provider, id);
}

const FIX = "sed -i 's/a - b/a + b/' calc/__init__.py";

describe.concurrent('the repository that the agent sees', () => {
  it('has the commits up to the base, and nothing of its future', async () => {
    const rollout = await begin();
    const { output } = await rollout.run(
      [
        'git log --format=%s',
        'echo "tags: $(git tag)"',
        'echo "remotes: $(git remote)"',
        'echo "references: $(git for-each-ref --format="%(refname)" | tr "\\n" " ")"',
        'echo "reflog: $(git reflog)"',
        `echo "future: $(git cat-file -t ${place.future} 2>&1)"`,
        'git fsck --no-progress --unreachable --no-reflogs; echo "fsck $?"',
        'git status --short; cat build.log left-over.txt; echo "hidden: $(grep -rc test_add tests) $(ls /tmp | grep -v home)"',
      ].join('\n'),
    );
    expect(output).toContain('State of the environment\nadd\nfirst\n');
    expect(output).not.toContain('the solution');
    expect(output).toContain('tags: v1\nremotes: \nreferences: refs/heads/main refs/tags/v1 \nreflog: \n');
    expect(output).toMatch(/future: fatal/u);
    expect(output).toContain('fsck 0\nlog\nby the image\nhidden: tests/test_calc.py:0 \n');
    expect(output).not.toContain('unreachable');
    const texts = await rollout.run('git cat-file --batch-all-objects --batch --buffer | grep -ac "a + b"; true');
    expect(texts.output.trim()).toBe('0');
  });

  it('is one commit if its base is not there', async () => {
    const rollout = await begin({}, makePlace({ base_commit: 'f'.repeat(40) }));
    const { output } = await rollout.run(
      'git log --format=%s; git tag; git cat-file --batch-all-objects --batch-check | grep -c commit',
    );
    expect(output).toBe('State of the environment\n1\n');
  });

  it('has the bug of SWE-smith, and no commit that shows it', async () => {
    const bug = (text: string) =>
      text.replace('-    return a - b\n+    return a + b', '-    return a - b\n+    return b - a');
    const at = makePlace({
      repo: 'swesmith/owner__calc.12345678',
      patch: bug(String(place.record['patch'])),
      test_patch: undefined,
      FAIL_TO_PASS: [],
      PASS_TO_PASS: ['tests/test_calc.py::test_double'],
    });
    const rollout = await begin({ logParser: 'pytest' }, at);
    const { output } = await rollout.run(
      'grep -c "b - a" calc/__init__.py; git log --format=%s; ls /tmp | grep -v home',
    );
    expect(output).toBe('1\nState of the environment\n');
    await rollout.solve();
    expect((await rollout.run('grep -c "a - b" calc/__init__.py')).output).toBe('1\n');
    expect(await rollout.end()).toMatchObject({ code: 'graded', reward: 1 });
  });
});

describe.concurrent('what is graded', () => {
  it('gives 1 to the gold patch, and 0 to no change', async () => {
    const rollout = await begin();
    expect(await rollout.end()).toMatchObject({ reward: 0, reason: 'nothing was changed' });
    const right = await begin();
    await right.solve();
    expect(await right.end()).toEqual({
      code: 'graded',
      reward: 1,
      passed: true,
      reason: '1 of 1 tests fixed, 1 of 1 kept',
      parts: { fixed: 1, kept: 1 },
      metrics: { tests: 2, partial: 0 },
    });
  });

  it('gives 0 to a patch that breaks something', async () => {
    const rollout = await begin();
    await rollout.run(`${FIX}; sed -i 's/2 \\* a/3 * a/' calc/__init__.py`);
    expect(await rollout.end()).toMatchObject({ reward: 0, parts: { fixed: 1, kept: 0 } });
  });

  it('restores the tests that the agent changed, and leaves out what pytest loads', async () => {
    const rollout = await begin();
    await rollout.run(`${FIX}; echo 'raise SystemExit' > tests/test_calc.py; echo 1 > conftest.py`);
    expect(await rollout.end()).toMatchObject({
      reward: 1,
      reason: expect.stringContaining('not taken: conftest.py (tests), tests/test_calc.py (tests)'),
    });
  });

  it('keeps every byte of text, and names binary files only', async () => {
    const rollout = await begin();
    await rollout.run(
      `${FIX}; sed -i 's/line/line two/' calc/latin.txt; printf 'three\\r\\n' >> calc/dos.txt; head -c 4000 /dev/urandom > calc/image.bin; echo x >> left-over.txt; echo y >> build.log`,
    );
    const patch = Buffer.from(await rollout.collect());
    expect(patch.includes(Buffer.from('+line two\n'))).toBe(true);
    expect(patch.includes(Buffer.from([0xe9, 0x0a]))).toBe(true);
    expect(patch.includes(Buffer.from('+three\r\n'))).toBe(true);
    expect(patch.includes(Buffer.from('Binary files /dev/null and b/calc/image.bin differ'))).toBe(true);
    expect(patch.includes(Buffer.from('build.log'))).toBe(false);
    expect(await rollout.grade(patch)).toMatchObject({
      reward: 1,
      reason: expect.stringContaining('calc/image.bin (binary)'),
    });
  });

  it('does not trust what a patch prints', async () => {
    const rollout = await begin();
    const lines = ['test_add', 'test_double'].map((name) => `print("PASSED tests/test_calc.py::${name}", flush=True)`);
    await rollout.run(`cat >> calc/__init__.py <<'END'\n${lines.join('\n')}\nimport os\nos._exit(3)\nEND`);
    expect(await rollout.end()).toMatchObject({
      code: 'graded',
      reward: 0,
      reason: expect.stringContaining('the runner ended with 3'),
    });
  });

  it('blames the patch for an end without tests, if the tests run without it', async () => {
    const rollout = await begin();
    await rollout.run("echo 'raise SystemExit(0)' >> calc/__init__.py");
    expect(await rollout.end()).toMatchObject({
      code: 'graded',
      reward: 0,
      reason: expect.stringContaining('it shows no test'),
    });
  });

  it('fails as a grader if the tests do not run without the patch either', async () => {
    const rollout = await begin({ testCommand: 'echo nothing' });
    await rollout.solve();
    expect(await rollout.end()).toMatchObject({
      code: 'grader-failed',
      reason: expect.stringContaining('and neither did they without the patch'),
    });
    const broken = await begin(
      {},
      makePlace({ test_patch: String(place.record['test_patch']).replace('test_double', 'test_other') }),
    );
    await broken.solve();
    expect(await broken.end()).toMatchObject({
      code: 'grader-failed',
      reason: expect.stringContaining('the hidden tests do not apply'),
    });
  });

  it('runs a killed run once more before it blames the patch', async () => {
    const rollout = await begin();
    await rollout.run(
      "printf 'import os, signal\\nos.kill(os.getppid(), signal.SIGKILL)\\nos.kill(os.getpid(), signal.SIGKILL)\\n' >> calc/__init__.py",
    );
    const patch = await rollout.collect();
    expect(await rollout.grade(patch, 1)).toMatchObject({
      code: 'grader-failed',
      reason: expect.stringContaining('they run once more'),
    });
    expect(await rollout.grade(patch, 2)).toMatchObject({ code: 'graded', reward: 0 });
  });

  it('runs the script of a record, and only the output of its tests counts', async () => {
    const script = [
      '#!/bin/bash',
      'set -uxo pipefail',
      'echo "PASSED tests/test_calc.py::test_add"',
      `git checkout ${place.base} tests/test_calc.py`,
      "git apply -v - <<'EOF_1'",
      `${String(place.record['test_patch'])}EOF_1`,
      ": '>>>>> Start Test Output'",
      'PYTHONPATH=. python3 run_tests_of.py tests/test_calc.py',
      ": '>>>>> End Test Output'",
      `git checkout ${place.base} tests/test_calc.py`,
    ].join('\n');
    const at = makePlace({ eval_script: script, log_parser: 'parse_log_pytest' });
    const wrong = await begin({ testCommand: undefined }, at);
    await wrong.run('echo "# nothing" >> calc/__init__.py');
    expect(await wrong.end()).toMatchObject({ reward: 0, parts: { fixed: 0, kept: 1 } });
  });
});

/** The hidden tests are a Makefile, which the repository's own commands build and check. */
const MAKEFILE = [
  'all:',
  '\techo "PASS: printed by the build"; echo made > made-by-all.txt',
  'clean:',
  'check:',
  '\t@test -f made-by-all.txt && echo "PASS: tests/built"',
  `\t@python3 -c 'import calc; n = calc.add(2, 3); print("PASS:" if n == 5 else "FAIL:", "tests/add"); exit(n != 5)'`,
];

it('builds and tests a repository that is not in Python as SWE-bench specifies it', async () => {
  const head = 'diff --git a/Makefile b/Makefile\nnew file mode 100644\n--- /dev/null\n+++ b/Makefile';
  const lines = MAKEFILE.map((line) => `+${line}\n`).join('');
  const at = makePlace({
    repo: 'jqlang/jq',
    version: '2658',
    test_patch: `${head}\n@@ -0,0 +1,${MAKEFILE.length} @@\n${lines}`,
    FAIL_TO_PASS: ['tests/add'],
    PASS_TO_PASS: ['tests/built'],
  });
  const wrong = await begin({ testCommand: undefined }, at);
  await wrong.run('echo "# nothing" >> calc/__init__.py');
  expect(await wrong.end()).toMatchObject({ reward: 0, parts: { fixed: 0, kept: 1 } });
  const right = await begin({ testCommand: undefined }, at);
  await right.solve();
  expect(await right.end()).toMatchObject({ reward: 1, metrics: { tests: 2 } });
});

it('puts files that no patch carries in place before the tests, whatever the patch did', async () => {
  const bytes = Buffer.from([0x89, 0x50, 0x00, 0xff]);
  const test = `+    assert open("tests/a b.png", "rb").read() == bytes([${bytes.join(', ')}])\n`;
  const at = makePlace({
    image_assets: JSON.stringify({ test_patch: [{ path: 'tests/a b.png', url: 'https://example.invalid/x' }] }),
    test_patch: String(place.record['test_patch']).replace('+7 @@', '+8 @@') + test,
  });
  await expect(openTask(at)).rejects.toThrow(`the tests of ${ID} need tests/a b.png (image_assets)`);
  await expect(openTask(at, { assets: 'files' })).rejects.toThrow(`put it into such a folder as ${ID}/tests/a b.png`);
  mkdirSync(join(at.folder, 'files', ID, 'tests'), { recursive: true });
  writeFileSync(join(at.folder, 'files', ID, 'tests/a b.png'), bytes);
  const rollout = await begin({ assets: 'files' }, at);
  expect((await rollout.run('ls tests')).output).not.toContain('png');
  await rollout.solve();
  await rollout.run('echo text > "tests/a b.png"');
  expect(await rollout.end()).toMatchObject({ reward: 1, reason: expect.stringContaining('tests/a b.png (tests)') });
}, 60_000);

/** Each leaves the workspace so that an ordinary `git add -A` or `git diff` fails, hangs, or runs something. */
const BREAKAGES: ReadonlyArray<readonly [string, string]> = [
  [
    'settings, hooks, filters, locks, nested repositories, commits of its own',
    [
      'git checkout -q -b other && echo 1 > more && git add -A && git commit -q -m mine && git branch -D main',
      "git config core.fsmonitor 'touch /tmp/ran; false'; git config diff.external false; git config core.worktree /tmp",
      'mkdir -p .git/hooks .git/info; printf "#!/bin/sh\nexit 1" > .git/hooks/pre-commit; touch .git/index.lock',
      "git config filter.evil.clean 'sleep 999'; git config filter.evil.required true",
      "echo '*.py filter=evil diff=evil' >> .git/info/attributes",
      'mkdir sub && git -C sub init -q && echo 1 > sub/file && mkdir sub2 && mkfifo sub2/pipe',
    ].join('; '),
  ],
  ['a folder of git elsewhere, behind a link', 'mv .git /tmp/elsewhere && ln -s /tmp/elsewhere .git'],
  ['a folder of git elsewhere, behind a file', 'mv .git /tmp/elsewhere && echo "gitdir: /tmp/elsewhere" > .git'],
  ['no start', 'rm .git/longhaul-start .git/HEAD .git/index; mkfifo .git/longhaul-start'],
];

describe.concurrent('a workspace whose git the agent broke', () => {
  it.each(BREAKAGES)('gives its patch all the same: %s', async (_, command) => {
    const rollout = await begin();
    await rollout.run(`${FIX}; ${command}`);
    expect(Buffer.from(await rollout.collect()).toString()).toContain('-    return a - b\n+    return a + b\n');
  });

  it.each([
    ['its objects are gone', 'rm -rf .git', 'git cannot read the workspace'],
    ['the patch is too large', 'head -c 3000000 /dev/zero | tr "\\0" x | fold -w 80 > large.txt', 'it is larger than'],
  ])('has no patch if %s', async (_, command, reason) => {
    const rollout = await begin();
    await rollout.run(`${FIX}; ${command}`);
    expect(await rollout.end()).toMatchObject({ code: 'graded', reward: 0, reason: expect.stringContaining(reason) });
  });
});

it('names its tasks after the instances', async () => {
  const task = await openTask(place);
  expect(task.family).toBe('owner/calc');
  expect(task.messages[0]?.content).toContain('add(2, 3) is -1');
  expect(task.messages[0]?.content).not.toContain('plus');
  expect(JSON.stringify(task.messages)).not.toContain('test_add');
  expect((await openTask(place, { hints: true })).messages[0]?.content).toContain('Use a plus.');
  expect(ID).toBe(place.record['instance_id']);
});
