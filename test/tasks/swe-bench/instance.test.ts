/** Records of SWE-bench and its relatives, and what follows from one: its image, its tests, its patch. */

import { describe, expect, it } from 'vitest';

import { type Instance, instanceSchema } from '../../../tasks/swe-bench/instance.ts';
import { options } from '../../../tasks/swe-bench/options.ts';
import { candidateOf, pathsOf, sectionsOf } from '../../../tasks/swe-bench/patch.ts';
import { filled, imageOf } from '../../../tasks/swe-bench/sources.ts';
import { buildCommand, splitScript, testCommandOf } from '../../../tasks/swe-bench/test-commands.ts';

const patchOf = (...paths: string[]): string =>
  paths.map((path) => `diff --git a/${path} b/${path}\n--- a/${path}\n+++ b/${path}\n@@ -1 +1 @@\n-a\n+b\n`).join('');

const ROW = {
  instance_id: 'django__django-11099',
  repo: 'django/django',
  base_commit: 'd26b2424437dabeeca94d7900b37d2df4410da0c',
  problem_statement: 'text',
  patch: patchOf('django/a.py'),
  test_patch: patchOf('tests/auth_tests/test_validators.py', 'tests/auth_tests/data.json'),
  FAIL_TO_PASS: '["a", "b"]',
  PASS_TO_PASS: ['c'],
  version: 3.2,
};

const read = (changes: Record<string, unknown> = {}): Instance =>
  instanceSchema(undefined).parse({ ...ROW, ...changes });

function fault(changes: Record<string, unknown>): string {
  const { error } = instanceSchema(undefined).safeParse({ ...ROW, ...changes });
  return `${error?.issues[0]?.path.join('.')}: ${error?.issues[0]?.message}`;
}

describe('records', () => {
  it('have lists of tests as lists or as JSON texts', () => {
    expect(read()).toMatchObject({ failToPass: ['a', 'b'], passToPass: ['c'], version: '3.2', source: 'swe-bench' });
    expect(read({ FAIL_TO_PASS: ['a'], PASS_TO_PASS: '[]' })).toMatchObject({ failToPass: ['a'], passToPass: [] });
  });

  it('of SWE-smith bring the bug, which the gold patch takes back', () => {
    const one = read({
      repo: 'swesmith/owner__name.0123abcd',
      image_name: 'swesmith.x86_64.owner__name.0123abcd',
      test_patch: undefined,
    });
    expect(one).toMatchObject({ source: 'swe-smith', repo: 'owner/name', bug: ROW.patch, gold: { reverse: true } });
    expect(imageOf(one, undefined)).toBe('jyangballin/swesmith.x86_64.owner_1776_name.0123abcd');
  });

  it('of R2E-Gym have an image for an id, and expected statuses', () => {
    const row = {
      problem_statement: 'x',
      repo_name: 'aiohttp',
      docker_image: 'namanjain12/aiohttp_final:0a1b',
      expected_output_json: '{"t": "PASSED"}',
    };
    const one = instanceSchema(undefined).parse(row);
    expect(one).toMatchObject({
      id: 'namanjain12_aiohttp_final_0a1b',
      source: 'r2e-gym',
      repo: 'aiohttp',
      expected: { t: 'PASSED' },
    });
    expect(imageOf(one, undefined)).toBe('namanjain12/aiohttp_final:0a1b');
    expect(
      instanceSchema(undefined).parse({ ...row, docker_image: undefined, instance_id: row.docker_image }).image,
    ).toBe(row.docker_image);
  });

  it('nest the instance, as an object or as JSON', () => {
    for (const instance of [ROW, JSON.stringify(ROW)]) {
      const one = instanceSchema(undefined).parse({ instance, dataset_name: 'SWE-Gym/SWE-Gym', mode: 'eval' });
      expect(one).toMatchObject({ id: ROW.instance_id, source: 'swe-gym' });
    }
    expect(read({ setup_script: 'a', test_script: 'b' }).evalScript).toEqual({ prepare: 'a', test: 'b' });
  });

  it('name files that no patch carries, as an object or as JSON', () => {
    const given = {
      problem_statement: null,
      test_patch: [{ path: 'a/b.png', url: 'x' }],
      patch: [{ path: 'a/b.png' }],
    };
    for (const one of [given, JSON.stringify(given)]) expect(read({ image_assets: one }).assets).toEqual(['a/b.png']);
    for (const none of [undefined, null, '', '{}']) expect(read({ image_assets: none }).assets).toEqual([]);
  });

  it.each([
    [{ instance_id: undefined }, 'instance_id: give letters'],
    [{ instance_id: '../x' }, 'instance_id: give letters'],
    [{ problem_statement: '' }, 'problem_statement: give the text of the issue'],
    [{ base_commit: 'main; rm -rf /' }, 'base_commit: give the hexadecimal digits'],
    [{ FAIL_TO_PASS: '[1]' }, 'FAIL_TO_PASS: '],
    [{ FAIL_TO_PASS: [], PASS_TO_PASS: [] }, 'FAIL_TO_PASS: give at least one test'],
    [{ test_patch: 'text' }, 'test_patch: give a patch of git'],
    [{ patch: 'text' }, 'patch: give a patch of git'],
    [{ image_assets: '{' }, 'image_assets: give an object with lists of paths'],
    [{ image_assets: { test_patch: [{ path: '../x' }] } }, 'image_assets.test_patch.0.path: give a relative path'],
    [{ image_assets: { patch: [{ path: '/x' }] } }, 'image_assets.patch.0.path: give a relative path'],
    [{ log_parser: 'parse_log_djngo' }, 'log_parser: give one of '],
  ])('%j is refused', (changes, message) => expect(fault(changes)).toContain(message));
});

describe('images', () => {
  it("follow SkyRL's rule, the record, or a template", () => {
    expect(imageOf(read({ instance_id: 'PyCQA__flake8-1' }), undefined)).toBe(
      'docker.io/xingyaoww/sweb.eval.x86_64.pycqa_s_flake8-1',
    );
    expect(imageOf(read({ image: 'own/image:1' }), undefined)).toBe('own/image:1');
    expect(imageOf(read({ image: '/images/x.sif' }), undefined)).toMatch(/^docker\.io\/xingyaoww/u);
    expect(filled('swebench/sweb.eval.x86_64.{docker_id}', read())).toBe(
      'swebench/sweb.eval.x86_64.django_1776_django-11099',
    );
  });

  it('are named by templates that know their names', () => {
    const data = { test: 'a.json' };
    const refused = (given: object) => options.safeParse({ data, ...given }).error?.issues[0]?.message;
    expect(refused({ image: 'x/{id}' })).toContain('there is no {id}; give one of {instance_id}');
    expect(refused({ image: 'x', recipe: 'y' })).toBe('give an image or a recipe, not both');
    expect(refused({ logParser: 'djngo' })).toContain('did you mean django');
    expect(refused({})).toBeUndefined();
  });
});

describe('the command of the tests', () => {
  it('names the files of the test patch that are no data', () => {
    expect(testCommandOf(read(), undefined)).toBe(
      "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1 'auth_tests.test_validators'",
    );
    expect(testCommandOf(read({ repo: 'pallets/flask' }), undefined)).toBe(
      "pytest -rA 'tests/auth_tests/test_validators.py'",
    );
    expect(testCommandOf(read({ repo: 'pallets/flask' }), 'run {files} --fast')).toBe(
      "run 'tests/auth_tests/test_validators.py' --fast",
    );
  });

  it("takes mypy's cases, and SWE-smith's files from the names of tests", () => {
    const cases = `${patchOf('test-data/unit/check.test')} [case testOld]\n+[case testNew-skip]\n`;
    expect(testCommandOf(read({ repo: 'python/mypy', test_patch: cases }), undefined)).toBe(
      "pytest -n0 -rA -k 'testOld or testNew'",
    );
    const smith = {
      repo: 'swesmith/a__b.0123abcd',
      test_patch: undefined,
      FAIL_TO_PASS: ['t/x.py::A::b[c::d]', 't/x.py::e'],
      PASS_TO_PASS: [],
    };
    expect(testCommandOf(read(smith), undefined)).toBe(
      "pytest --disable-warnings --color=no --tb=no --verbose 't/x.py'",
    );
  });

  it('compiles what a patch touches, where a repository has extensions', () => {
    expect(buildCommand(read({ repo: 'scikit-learn/scikit-learn' }), ['a.pyx'])).toBe(
      'python setup.py build_ext --inplace',
    );
    expect(buildCommand(read({ repo: 'scikit-learn/scikit-learn' }), ['a.py'])).toBe('');
  });

  it("is split from what comes before in SWE-bench's scripts", () => {
    expect(splitScript("a\n: '>>>>> Start Test Output'\nb\n: '>>>>> End Test Output'\nc")).toEqual({
      prepare: 'a',
      test: 'b',
    });
    expect(splitScript('a')).toBeUndefined();
  });
});

describe('patches', () => {
  it('say which files they touch, whatever their names and contents are', () => {
    const odd = [
      'noise',
      'diff --git "a/d\\303\\251 \\"x\\".py" "b/d\\303\\251 \\"x\\".py"',
      'new file mode 100644',
      '--- /dev/null',
      '+++ "b/d\\303\\251 \\"x\\".py"',
      '@@ -0,0 +1,2 @@',
      '+diff --git a/not b/this',
      '+++ b/nor this',
      'diff --git a/with space b/with space',
      'old mode 100644',
      'new mode 100755',
      'diff --git a/old.py b/new.py',
      'rename from old.py',
      'rename to new.py',
      'diff --git a/gone.py b/gone.py',
      'deleted file mode 100644',
      '--- a/gone.py',
      '+++ /dev/null',
      '@@ -1 +0,0 @@',
      '-x',
      '',
    ].join('\n');
    expect(pathsOf(odd)).toEqual(['d\u00c3\u00a9 "x".py', 'with space', 'new.py', 'old.py', 'gone.py']);
    expect(sectionsOf(odd).map(({ isNew, isDeleted }) => [isNew, isDeleted])).toEqual([
      [true, false],
      [false, false],
      [false, false],
      [false, true],
    ]);
  });

  it('lose what is binary, outside of the repository, or a hidden test', () => {
    const binary = 'diff --git a/x.png b/x.png\nnew file mode 100644\nBinary files /dev/null and b/x.png differ\n';
    const patch = `${patchOf('a.py')}${binary}${patchOf('.git/config', '../up', 'sub/.GIT/hooks/x', 'tests/t.py')}`;
    const { patch: left, dropped } = candidateOf(Buffer.from(patch), (path) => path === 'tests/t.py');
    expect(left).toBe(patchOf('a.py'));
    expect(dropped.map(({ path, why }) => `${path} ${why}`)).toEqual([
      'x.png binary',
      '.git/config outside',
      '../up outside',
      'sub/.GIT/hooks/x outside',
      'tests/t.py tests',
    ]);
  });

  it('keep carriage returns and bytes that are no UTF-8', () => {
    const bytes = Buffer.from(patchOf('a.py').replace('+b', '+b\xe9\r'), 'latin1');
    expect(Buffer.from(candidateOf(bytes, () => false).patch, 'latin1').equals(bytes)).toBe(true);
  });

  it('are read in time that grows with their size', () => {
    for (const text of ['diff --git ', 'diff --git a/x b/x\n', 'diff --git "a', '@@ ', 'Binary files '])
      expect(sectionsOf(text.repeat(60_000)).length).toBeLessThanOrEqual(60_000);
  });
});
