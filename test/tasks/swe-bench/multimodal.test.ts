/**
 * Logs of the repositories of SWE-bench Multimodal whose results are not a line each. Why: a name that differs by a
 * blank from the one in the lists of an instance is a test that failed, and such a log has much that only looks like a
 * test. Asserted: names and statuses for logs in the runners' own forms, with what the tests themselves print between
 * them; that the version chooses the runner; time in proportion to hostile logs.
 */
import { describe, expect, it } from 'vitest';
import { parserNamed, parserOfRepository, unknownParser } from '../../../tasks/swe-bench/parsers/index.ts';
import type { Status } from '../../../tasks/swe-bench/parsers/status.ts';
import { evalTypeOf } from '../../../tasks/swe-bench/resolved.ts';

const statuses = (parser: string, log: string, version?: string): Record<string, Status> =>
  Object.fromEntries(parserNamed(parser, version)(log));
const lines = (...all: readonly string[]): string => all.join('\n');

describe('suites by indentation', () => {
  it("reads Calypso's runs of Jest; suites outlive a command, as in the lists", () => {
    const log = lines(
      '  ✓ not yet',
      "+ ./node_modules/.bin/jest --verbose -c=test/client/jest.config.json 'client/a'",
      'PASS client/a/test/index.js',
      '  actions',
      '    #fetch()',
      '      ✓ should fetch (12ms)',
      '      ✕ should fail twice',
      '      ○ skipped 1 test',
      '  reducer',
      '    ✓ waits (1s)',
      '',
      'Test Suites: 1 failed, 1 total',
      '      ✓ printed later',
      "+ ./node_modules/.bin/jest --verbose 'client/b'",
      '✓ without a blank',
      '  ✓ alone',
      '  ● actions › should fail twice',
      '    ✓ in a stack',
    );
    expect(statuses('calypso', log)).toEqual({
      'actions - #fetch() - should fetch': 'PASSED',
      'actions - #fetch() - should fail twice': 'FAILED',
      'reducer - waits (1s)': 'PASSED',
      'reducer - alone': 'PASSED',
    });
    expect(statuses('calypso', 'x ./node_modules/.bin/jest a\n ✓ b')).toEqual({ '- b': 'PASSED' });
  });

  it("reads Lighthouse's runs of Mocha, each to its summary", () => {
    const log = lines(
      'running 12 test files',
      '',
      '  Audit: a',
      '    ✔ passes (3ms)',
      '    inner',
      '      1) fails (12ms) late',
      '    ✔ (4ms)',
      '',
      '  23 passing (1s)',
      '  1 failing',
      '  1) Audit: a',
      'running 1 test files',
      '✔ b',
    );
    // The first line of a run loses its indentation, and only a suite ends a suite.
    const expected = { passes: 'PASSED', 'inner - fails': 'FAILED', 'inner - (4ms)': 'PASSED', b: 'PASSED' };
    for (const version of ['9.5', '10.0', '10.2']) expect(statuses('lighthouse', log, version)).toEqual(expected);
    expect(statuses('lighthouse', log, '9.4')).toEqual({});
  });

  it("reads Next's Karma between the browser's start and the total", () => {
    const log = lines(
      '+ xvfb-run npm test',
      '    ✓ before the browser',
      '\u001b[32mINFO: Starting browser Chrome\u001b[39m',
      '  Button',
      '    size',
      '      \u001b[32m✓ \u001b[39msmall',
      '      ✗ large',
      "  WARN: 'x'",
      '    AssertionError: #<a> is',
      '      ✓ in a message',
      '',
      '    ✓  other',
      'TOTAL: 2 SUCCESS',
      '    ✓ later',
    );
    expect(statuses('next', log, '1.0')).toEqual({
      'Button - size - small': 'PASSED',
      'Button - size - large': 'FAILED',
      'Button - size - other': 'PASSED',
    });
  });

  it("reads Next's Cypress, of version 1.27 alone", () => {
    const log = lines(
      '  Running:  button.spec.js   (1 of 2)',
      '',
      '',
      '  Button',
      '    ✓ renders (x) (120ms)',
      '    1) breaks ',
      '     ✓ further right (1ms)',
      '    ✓ without a time',
      '',
      '  Running:  tab.spec.js   (2 of 2)',
      '',
      '',
      '  Tab',
      '    ✓ opens (3ms)',
      '',
    );
    expect(statuses('next', log, '1.27')).toEqual({
      'Button: renders (x)': 'PASSED',
      'Button: breaks': 'FAILED',
      'Tab: opens': 'PASSED',
    });
    expect(statuses('next', log, '1.26')).toEqual({});
  });

  it("reads Plotly's suites: what is not further right than the last is in none", () => {
    const log = lines(
      '  - suite a :',
      '    * one : ok',
      '    - inner b :',
      '      * two :  failed (not ok)',
      '      * three : skipped',
      '    * four: not a : OK',
      '  - c :',
      '    * five:ok',
    );
    expect(statuses('plotly_js', log)).toEqual({
      'suite a.one': 'PASSED',
      'suite a.inner b.two': 'FAILED',
      'suite a.inner b.three': 'FAILED',
      'four: not a': 'PASSED',
    });
  });
});

describe("Mocha's JSON", () => {
  const report = (passes: string[], failures: string[]): string => {
    const tests = (titles: string[]) => titles.map((fullTitle) => ({ title: 'x', fullTitle, err: {} }));
    return JSON.stringify(
      { stats: {}, tests: tests([...passes, ...failures]), failures: tests(failures), passes: tests(passes) },
      undefined,
      2,
    );
  };

  it("reads Prism's reports after their command; one that is cut off shows no test", () => {
    const command = '+ ./node_modules/.bin/mocha tests/run.js --reporter json';
    const log = lines('{}', command, 'a note', report(['a "b"', 'c'], ['d']), command, report(['d'], []));
    expect(statuses('prismjs', log)).toEqual({ 'a "b"': 'PASSED', c: 'PASSED', d: 'PASSED' });
    expect(statuses('prismjs', `${log}\n${command}\n${report(['a'], []).slice(0, -9)}`)).toEqual({});
    expect(statuses('prismjs', `${command}\n{"failures": []}`)).toEqual({});
    expect(statuses('prismjs', report(['a'], []))).toEqual({});
  });

  it("reads Cypress' reports, each to the folder that is left, and Lighthouse's of old", () => {
    const whole = report(['a b', 'c'], ['d "e"']);
    const cypress = lines('+ cd packages/x', whole, '+ cd ../..', report(['late'], []));
    expect(statuses('cypress', cypress)).toEqual({ 'a b': 'PASSED', c: 'PASSED', 'd \\"e\\"': 'FAILED' });
    const lighthouse = lines(report(['early'], []), '+ ./node_modules/.bin/mocha --reporter json x', whole);
    expect(statuses('lighthouse', lighthouse, '2.9')).toEqual({ 'a b': 'PASSED', c: 'PASSED', 'd \\"e\\"': 'FAILED' });
    expect(statuses('lighthouse', 'PASS a.js (3.2 s)\nFAIL b.js', '3.0')).toEqual({
      'a.js': 'PASSED',
      'b.js': 'FAILED',
    });
  });
});

describe('logs between what tests print', () => {
  it("reads p5.js' failures without blocks of JSON and XML", () => {
    const log = lines(
      '  2 failing',
      '',
      '  1) p5.Color',
      '       p5.prototype.lerp',
      '         should \u001b[31mfail\u001b[39m:',
      '     Error: {',
      '  9) in JSON:',
      '}',
      '{"a": "  8) x:"}',
      '  2) p5.Font <svg>',
      '  7) in XML:',
      '<svg></svg></svg>',
      '       draws:',
      '  3) not a test',
      'at a: b',
      '  4) unclosed <b>',
      '      x: y',
    );
    expect(statuses('p5js', log)).toEqual({
      'p5.Color:p5.prototype.lerp:should fail': 'FAILED',
      'p5.Font:draws': 'FAILED',
      'unclosed <b>:x': 'FAILED',
    });
    expect(evalTypeOf('processing/p5.js')).toBe('fail_only');
    // Of inner tags of the same name, as many as are never closed stay.
    expect(statuses('p5js', ' 1) a<p>b<p>c<p>d</p>e</p>f:')).toEqual({ 'a<p>f': 'FAILED' });
  });

  it("reads Quarto's results, and numbers temporary files", () => {
    const [ok, failed] = ['\u001b[0m\u001b[32mok\u001b[0m (1s)', '\u001b[0m\u001b[31mFAILED\u001b[0m (2s)'];
    const log = lines(
      `[smoke] > quarto render docs/a.qmd --to html ... ${ok}`,
      `[smoke] > render /tmp/f3a1.qmd ... ${failed}`,
      `[unit] in /tmp/c9/x, /tmp/d8/y ... ${ok}`,
      `[smoke] > render /tmp/f3a1.qmd again ... ${ok}`,
      '[unit] without a result ...',
      '[unit] \u001b[34mINFO\u001b[39m ...',
      `[unit] 2 passed (3 steps) 1 failed ... ${ok}`,
      `other ... ${ok}`,
      'failures:',
      `[unit] repeated ... ${ok}`,
    );
    expect(statuses('quarto_cli', log)).toEqual({
      '[smoke] > quarto render docs/a.qmd --to html': 'PASSED',
      '[smoke] > render /tmp/0': 'FAILED',
      '[unit] in /tmp/1x, /tmp/1y': 'PASSED',
      '[smoke] > render /tmp/0 again': 'PASSED',
      '[unit] without a result': 'FAILED',
    });
  });
});

it('leaves out of a file name its last time in milliseconds, else in seconds, and what follows', () => {
  const log = 'PASS a (3ms) b (5.2 s)\nFAIL e (1 s) (2s) c\nPASS  d ';
  expect(statuses('carbon', log)).toEqual({ a: 'PASSED', e: 'FAILED', ' d ': 'PASSED' });
});

const REPOSITORIES = [
  ['Automattic/wp-calypso', 'calypso'],
  ['processing/p5.js', 'p5js'],
  ['PrismJS/prism', 'prismjs'],
  ['cypress-io/cypress', 'cypress'],
  ['plotly/plotly.js', 'plotly_js'],
  ['quarto-dev/quarto-cli', 'quarto_cli'],
  ['GoogleChrome/lighthouse', 'lighthouse'],
  ['alibaba-fusion/next', 'next'],
] as const;

it('knows the parsers by repository and by the names in records', () => {
  for (const [repository, parser] of REPOSITORIES) {
    expect(parserOfRepository(repository)).toBe(parser);
    expect(unknownParser(`parse_log_${parser}`)).toBeUndefined();
  }
});

it('takes time in proportion to a log that means to be slow', () => {
  const hostile = [
    ' ./node_modules/.bin/jest ',
    ' ✓ ',
    ' 1) ',
    '1',
    'running 1 test files ',
    ' xvfb-run ',
    'AssertionError: ',
    'AssertionError: #',
    'Running:)\n\n\n  ',
    'Running:',
    '  - ',
    '  - :',
    '  - a  ',
    '"fullTitle": "',
    '"fullTitle": "a",\n',
    '../..',
    '{',
    './node_modules/.bin/mocha tests/run.js --reporter json{',
    './node_modules/.bin/mocha --reporter json',
    '<a>',
    '<a></b>',
    '<a><b></a>',
    ' 1) a<',
    '\u001b[1',
    '[unit]/tmp/a',
    '[smoke] /tmp/x.qmd/tmp/',
    '\n ',
  ];
  for (const [, parser] of REPOSITORIES)
    for (const version of parser === 'lighthouse' ? ['2.0', '9.5', '11.0'] : ['', '1.27'])
      for (const text of hostile)
        for (const log of [text.repeat(4_000), `${text}\n`.repeat(4_000), ` xvfb-run ${' '.repeat(40_000)}${text}`])
          expect(parserNamed(parser, version)(log).size).toBeLessThan(8_001);
}, 60_000);
