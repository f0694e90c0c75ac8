/**
 * Logs of runners in C, C++, Java, PHP, Ruby, and of JavaScript's in browsers (SWE-bench Multilingual and Multimodal).
 * Why: a name that differs by a blank from the one in the lists of an instance is a test that failed. Asserted: names
 * and statuses for logs in the runners' own forms, with what stands around the results; that half a report is none; the
 * parser of each repository; time in proportion to hostile logs.
 */
import { describe, expect, it } from 'vitest';
import {
  PARSER_NAMES,
  parserNamed,
  parserOfRepository,
  unknownParser,
} from '../../../tasks/swe-bench/parsers/index.ts';
import type { Status } from '../../../tasks/swe-bench/parsers/status.ts';
import { evidenceIn, resolutionOf } from '../../../tasks/swe-bench/resolved.ts';

const statuses = (parser: string, log: string): Record<string, Status> => Object.fromEntries(parserNamed(parser)(log));
const lines = (...all: readonly string[]): string => all.join('\n');

describe('C and C++', () => {
  it("reads Redis' lines: times and the files of failures are no part of a name", () => {
    const log = lines(
      '[ready]: 41',
      '[testing]: unit/type/list',
      '[ok]: LPUSH (big) works (3 ms)',
      '[ok]: SORT in a table',
      '[err]: RPOP blocks in lists in tests/unit/type/list.tcl',
      "Expected '1' to be equal to '2'",
      '[skip]: DEBUG needed',
      '[ignore]: large memory',
      '[1/1 done]: unit/type/list (4 seconds)',
    );
    expect(statuses('redis', log)).toEqual({
      'LPUSH (big) works': 'PASSED',
      'SORT in a table': 'PASSED',
      'RPOP blocks in lists': 'FAILED',
      'DEBUG needed': 'SKIPPED',
      'large memory': 'SKIPPED',
    });
  });

  it("reads automake's, MicroPython's and GoogleTest's, but not their summaries", () => {
    expect(statuses('jq', 'PASS: tests/jqtest\nFAIL: tests/shtest\n# PASS:  1\n# FAIL:  1')).toEqual({
      'tests/jqtest': 'PASSED',
      'tests/shtest': 'FAILED',
    });
    const micropython = 'pass  basics/array1.py\nFAIL  basics/try.py\nskip  thread/a.py\n2 tests performed\npassed x';
    expect(statuses('parse_log_micropython_test', micropython)).toEqual({
      'basics/array1.py': 'PASSED',
      'basics/try.py': 'FAILED',
      'thread/a.py': 'SKIPPED',
    });
    const google = lines(
      '1: [ RUN      ] format_test.escape',
      '1: [       OK ] format_test.escape (0 ms)',
      '[  FAILED  ] all/p.works/0, where GetParam() = (1, 2) (12 ms)',
      '[==========] 2 tests from 1 test suite ran. (12 ms total)',
      '[  PASSED  ] 1 test.',
      '[  FAILED  ] all/p.works/0',
    );
    expect(statuses('googletest', google)).toEqual({
      'format_test.escape': 'PASSED',
      'all/p.works/0, where GetParam() = (1, 2)': 'FAILED',
    });
  });

  const report = (inside: string): string =>
    `$ ./test -s -r=xml\n<?xml version="1.0"?>\n<doctest binary="t">\n<TestSuite>\n${inside}\n</TestSuite>\n</doctest>\nbye`;
  const expression = (success: boolean): string =>
    `<Expression success="${success}" type="CHECK"><Original>a &lt; b</Original></Expression>`;

  it("reads doctest's XML: a subcase passes if its expressions do, inner ones too", () => {
    const log = report(
      `<TestCase name="sorts &quot;a&quot; &amp; b" line="1">
        ${expression(false)}
        <SubCase name="outer">${expression(true)}<SubCase name="inner &#60;">${expression(false)}</SubCase></SubCase>
        <SubCase name="other">${expression(true)}</SubCase>
        <SubCase name="empty"/>
      </TestCase>`,
    );
    expect(statuses('doctest', log)).toEqual({
      'sorts "a" & b > outer': 'FAILED',
      'sorts "a" & b > inner <': 'FAILED',
      'sorts "a" & b > other': 'PASSED',
    });
  });

  it('takes half a report for none', () => {
    const whole = report(`<TestCase name="a"><SubCase name="b">${expression(true)}</SubCase></TestCase>`);
    expect(statuses('doctest', whole)).toEqual({ 'a > b': 'PASSED' });
    expect(statuses('doctest', whole.replace('</doctest>', ''))).toEqual({});
    expect(statuses('doctest', whole.replace('</SubCase>', ''))).toEqual({});
    expect(statuses('doctest', whole.replace('</TestCase>', ''))).toEqual({});
  });
});

describe('Java', () => {
  it('pairs commands of Maven with results, also where a command is printed late', () => {
    const log = lines(
      '+ mvnd test -B -pl gson -Dtest=com.google.gson.A#one -am',
      '+ mvnd test -B -Dtest=B#two',
      '[INFO] BUILD SUCCESS',
      '[INFO] Total time: 3 s',
      '[INFO] BUILD FAILURE',
      '+ mvnd test -Dtest=C',
    );
    expect(statuses('maven', log)).toEqual({ 'com.google.gson.A#one': 'PASSED', 'B#two': 'FAILED' });
    expect(statuses('maven', '[INFO] BUILD FAILURE\n+ mvn test -Dtest=A')).toEqual({ A: 'FAILED' });
    // A build before the tests is of none of them.
    const after = ['+ mvn install', '[INFO] BUILD SUCCESS', '+ mvnd test -Dtest=A#b', '[INFO] BUILD FAILURE'];
    expect(statuses('maven', lines(...after))).toEqual({ 'A#b': 'FAILED' });
  });

  it("reads Ant's and Gradle's lines", () => {
    expect(statuses('ant', '    [junit] [PASS] a.B(c)\n    [junit] [ERR] d e\n    [junit] Tests run: 2')).toEqual({
      'a.B(c)': 'PASSED',
      'd e': 'FAILED',
    });
    const gradle = lines(
      '> Task :lucene:core:test',
      '> Task :x FAILED',
      'org.A > one PASSED',
      'org.A > two[p=1] FAILED',
      'org.A > late',
      'WARNING: something else',
      'PASSED',
      'FAILED',
      'BUILD FAILED in 3s',
    );
    expect(statuses('gradle_custom', gradle)).toEqual({
      'org.A > one': 'PASSED',
      'org.A > two[p=1]': 'FAILED',
      'org.A > late': 'PASSED',
    });
  });
});

it("reads Jest's and Vitest's names, also those that begin with a blank", () => {
  const jest = '  ✓ adds (3 ms)\n  ✓  trims\n  ✕ b (x)\n  ✓  (3 ms)\n✓';
  expect(statuses('jest', jest)).toEqual({ adds: 'PASSED', trims: 'PASSED', 'b (x)': 'FAILED', '(3 ms)': 'PASSED' });
  const vitest = ' ✓ a > b 3ms\n ×  c\n ↓ d [skipped]';
  expect(statuses('vitest', vitest)).toEqual({ 'a > b': 'PASSED', ' c': 'FAILED', d: 'SKIPPED' });
  // A line of blanks is a suite for Mocha.
  expect(statuses('highlightjs', '  a\n    ✓ b\n  \n    ✓ c')).toEqual({ 'a.b': 'PASSED', '.c': 'PASSED' });
});

describe('PHP and Ruby', () => {
  it("reads PHPUnit's testdox", () => {
    const log = lines(
      'PHPUnit 9.6.3 by Sebastian Bergmann and contributors.',
      '',
      'Date (PhpOffice\\Tests\\Date)',
      ' ✔ Adds with data set #0 (1, 2)  1 ms',
      ' ✘ Breaks',
      '   │ Failed asserting that false is true.',
      '   ↩ Later',
      'Cell (b) (PhpOffice\\Tests\\Cell)',
      ' ✔ Adds',
    );
    expect(statuses('phpunit', log)).toEqual({
      'Date > Adds with data set #0 (1, 2)  1 ms': 'PASSED',
      'Date > Breaks': 'FAILED',
      'Date > Later': 'SKIPPED',
      'Cell (b) > Adds': 'PASSED',
    });
    expect(statuses('phpunit', ' ✔ Alone')).toEqual({ 'None > Alone': 'PASSED' });
  });

  it("reads Minitest's sentences; a skipped test has not passed", () => {
    const log = lines(
      'TestUtils#test_: The hash. Merging should be deep.  = 0.01 s = .',
      'TestUtils#test_: a should fail.  = 1.20 s = F',
      'TestUtils#test_: a should raise.  = 0.00 s = E',
      'TestUtils#test_: a should wait.  = 0.00 s = S',
      'Finished in 2.000000s, 1.0 runs/s.',
    );
    expect(statuses('minitest', log)).toEqual({
      'TestUtils#test_: The hash. Merging should be deep': 'PASSED',
      'TestUtils#test_: a should fail': 'FAILED',
      'TestUtils#test_: a should raise': 'FAILED',
      'TestUtils#test_: a should wait': 'SKIPPED',
    });
    expect(statuses('jekyll', log)).toEqual(statuses('minitest', log));
  });

  it("reads Cucumber's, test-unit's and RSpec's", () => {
    const cucumber = 'features/a b.feature ......\nfeatures/c.feature ...F--\nfeatures/d.feature F\n3 scenarios';
    const expected = { 'features/a b.feature': 'PASSED', 'features/c.feature': 'FAILED' };
    expect(statuses('cucumber', cucumber)).toEqual(expected);
    expect(statuses('jekyll', cucumber)).toEqual(expected);
    const unit = 'ATest: \n  test: reads: twice:\t.: (0.001)\n  test_b:\t\tF\n  c:\tE: x\n  test: later:\tO\n  d:\tEnd';
    expect(statuses('ruby_unit', unit)).toEqual({
      'reads: twice': 'PASSED',
      test_b: 'FAILED',
      c: 'FAILED',
      later: 'SKIPPED',
    });
    expect(statuses('rspec_transformed_json', 'A - passed - failed\nB b - passed\nC - pending')).toEqual({
      'A - passed': 'FAILED',
      'B b': 'PASSED',
      C: 'SKIPPED',
    });
  });
});

describe('JavaScript in browsers, and by file', () => {
  it("names Karma's tests as the lists of its instances do", () => {
    const log = lines(
      '✔ not yet',
      'INFO [launcher]: Starting browser ChromeHeadless',
      '',
      '  render()',
      '    ✔ renders',
      '    nested',
      '      ✖ breaks',
      '  hooks',
      '    ✔ works',
      '',
      'SUMMARY:',
      '✔ 2 tests completed',
    );
    // A heading that is further left ends a suite, and is none itself.
    expect(statuses('karma', log)).toEqual({
      'render() > renders': 'PASSED',
      'render() > nested > breaks': 'FAILED',
      'render() > works': 'PASSED',
    });
    expect(statuses('karma', 'Starting browser\n    \n    ✔ a')).toEqual({ ' > a': 'PASSED' });
  });

  it("reads the failures of Chart.js, bpmn-js and OpenLayers, with the blanks at a name's end where lists have them", () => {
    const chart = '\u001b[31mChrome 120.0.0.0 (Linux x86_64) Chart.line draws (a) FAILED\u001b[39m\nExecuted 3 of 3';
    expect(statuses('chart_js', chart)).toEqual({ 'Chart.line draws (a) ': 'FAILED' });
    const bpmn = lines(
      '\u001b[2KPhantomJS 2.1.1 (Linux 0.0.0) a b FAILED',
      'HeadlessChrome 90.0.4 (Linux 0.0.0) c FAILED',
      'Chrome Headless 120.0 (Linux x86_64) d FAILED',
      'Chrome Headless 120.0 (Linux x86_64): Executed 1 of 3 (1 FAILED)',
    );
    expect(statuses('bpmn_js', bpmn)).toEqual({ 'a b ': 'FAILED', 'c ': 'FAILED', 'd ': 'FAILED' });
    const layers = lines(
      'Chrome Headless 99.0.1 (Linux x86_64) ol.Map a FAILED',
      'case x/main.js: mismatch 0.02',
      '  1) ol/format',
      '       reads:',
      '     AssertionError: no',
    );
    expect(statuses('openlayers', layers)).toEqual({
      'ol.Map a': 'FAILED',
      'x/main.js': 'FAILED',
      'ol/format reads: Assertion': 'FAILED',
    });
  });

  it("reads ESLint's list of failures, and suites by file", () => {
    const eslint = lines(
      '  2 failing',
      '',
      '  1) rules',
      '       no-undef',
      '         a:',
      '',
      '      AssertionError [ERR_ASSERTION]: Should have 1 Error',
      '',
      '  2) other:',
      '     TypeError: x',
    );
    expect(statuses('eslint', eslint)).toEqual({ 'rules no-undef a:': 'FAILED', 'other:': 'FAILED' });
    // What is thrown need not be an error, and hides neither its own test nor the next.
    const thrown = lines(
      '  1) a',
      '       b:',
      '     Oops: bad',
      '',
      '  2) c:',
      '     TypeError: x',
      '  3) d:',
      '     Oops',
    );
    expect(statuses('eslint', thrown)).toEqual({ 'a b:': 'FAILED', 'c:': 'FAILED', 'd:': 'FAILED' });
    expect(statuses('openlayers', thrown)).toEqual({ 'a b:': 'FAILED', 'c: Type': 'FAILED', 'd:': 'FAILED' });
    const files = 'PASS src/a.test.js (5.2 s)\nFAIL src/b (x).js (12ms)\nPASS c.js\n PASS d.js';
    const expected = { 'src/a.test.js': 'PASSED', 'src/b (x).js': 'FAILED', 'c.js': 'PASSED' };
    expect(statuses('carbon', files)).toEqual(expected);
    expect(statuses('grommet', files)).toEqual(expected);
    expect(statuses('emotion', files)).toEqual({
      'src/a.test.js (5.2 s)': 'PASSED',
      'src/b (x).js (12ms)': 'FAILED',
      'c.js': 'PASSED',
    });
    expect(statuses('immutable_js', '  ✓ adds (1 ms)\n[PASSED] a\n[PASSED] b')).toEqual({ a: 'PASSED', b: 'PASSED' });
  });
});

it('decides an instance by such a log', () => {
  const evidence = evidenceIn('[ok]: a (1 ms)\r\n[err]: b in tests/x.tcl\r\n', 1, parserNamed('redis'));
  if ('invalid' in evidence) throw new Error(evidence.invalid);
  const resolved = (failToPass: string[], passToPass: string[]) =>
    resolutionOf(evidence.found, { failToPass, passToPass }, 'pass_and_fail').resolved;
  expect([resolved(['a'], []), resolved(['a'], ['b']), resolved(['a', 'b'], [])]).toEqual(['full', 'no', 'partial']);
});

it('knows the parser of a repository, whatever the case of its letters', () => {
  const of = [
    ['redis/redis', 'redis'],
    ['apache/druid', 'maven'],
    ['ReactiveX/RxJava', 'gradle_custom'],
    ['PHPOffice/PhpSpreadsheet', 'phpunit'],
    ['rubocop/rubocop', 'rspec_transformed_json'],
    ['preactjs/preact', 'karma'],
    ['chartjs/Chart.js', 'chart_js'],
    ['tokio-rs/axum', 'cargo'],
  ] as const;
  for (const [repository, parser] of of) {
    expect(parserOfRepository(repository)).toBe(parser);
    expect(unknownParser(`parse_log_${parser}`)).toBeUndefined();
  }
});

it('takes time in proportion to a log that means to be slow', () => {
  const hostile = [
    '[ok]: a in b ',
    '[  OK  ] x (',
    '[      ',
    'pass ',
    '-Dtest=a ',
    '[junit] [PASS] ',
    'a > ',
    '✔ ',
    ' (x)',
    'a. = ',
    ' ...',
    ':     ',
    ' - passed',
    'Chrome 1.1 (a',
    'Chrome Headless 1 ',
    '  1)',
    '  1) Error ',
    'PASS a (1.',
    '<SubCase name="a">',
    '<TestCase ',
    '&#1;',
    '    Starting browser ',
  ];
  for (const parser of PARSER_NAMES.slice(PARSER_NAMES.indexOf('karma')))
    for (const text of hostile)
      for (const log of [text.repeat(4_000), `${text}\n`.repeat(4_000)])
        expect(parserNamed(parser)(`<doctest>${log}</doctest>`).size).toBeLessThan(4_001);
}, 60_000);
