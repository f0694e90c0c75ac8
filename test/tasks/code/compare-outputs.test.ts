/** The comparisons of LiveCodeBench, case by case, and what a policy's process may send in place of a value. */

import { describe, expect, it } from 'vitest';
import { readExpected, sameOutput, sameValue } from '../../../tasks/code/compare-outputs.ts';
import { stripped } from '../../../protocol/python-text.ts';

describe('sameOutput', () => {
  it.each([
    ['1\n2\n', '1\n2', true],
    ['  1  \n\t2\r\n', '1\n2', true],
    ['1\n\n2', '1\n2', false],
    ['', '', true],
    ['', '0', false],
    ['1.50 2', '1.5 2.0', true],
    ['1e3', '1000', true],
    ['+5', '5', true],
    ['-0', '0.0', true],
    ['.5', '0.50', true],
    ['5.', '5', true],
    ['1_000', '1000', true],
    ['in_f', 'inf', true],
    ['\u0663', '3.0', true],
    ['\uff11e\uff12', '100', true],
    ['0.1', '0.10000000000000001', false],
    ['50000000000000000', '50000000000000001', false],
    ['inf', 'Infinity', true],
    ['-inf', 'inf', false],
    ['NaN', 'nan', false],
    ['nan', 'nan', true],
    ['yes', 'YES', false],
    ['1 a', '1.0 a', false],
    ['1 2', '1', false],
    ['1e99999999999999', '1e99999999999999', true],
    ['1e99999999999999', '10e99999999999998', true],
    ['0x10', '16', false],
    ['1  2', '1 2', true],
  ])('%j against %j: %s', (given, expected, same) => expect(sameOutput(given, expected)).toBe(same));

  it('takes time that is linear in the output', () => {
    const [spaces, zeros] = [' '.repeat(2_000_000), '0'.repeat(2_000_000)];
    expect(sameOutput(`${spaces}1${spaces}x`, '1')).toBe(false);
    expect(sameOutput(`1${zeros}`, `1${zeros}.0`)).toBe(true);
  });
});

describe('stripped', () => {
  it("strips Python's white space", () => {
    expect(stripped('\u001c\u0085\u3000 a b\v\f\u2028')).toBe('a b');
    expect(stripped('\ufeffa')).toBe('\ufeffa');
  });
});

describe('sameValue', () => {
  const equal = (given: unknown, expected: string): boolean => sameValue(given, readExpected(expected));

  it.each<[unknown, string, boolean]>([
    [1, '1', true],
    [true, '1', true],
    [1, 'true', true],
    [{ f: '1.0' }, '1', true],
    [1, '1.0', true],
    [{ f: '0.30000000000000004' }, '0.3', false],
    [{ i: '0x20000000000001' }, '9007199254740993', true],
    [{ i: '0x20000000000000' }, '9007199254740993', false],
    [{ f: '9007199254740992.0' }, '9007199254740993', false],
    [{ i: '-0x3635c9adc5dea00000' }, '-1000000000000000000000', true],
    [{ f: 'nan' }, 'NaN', false],
    [{ f: 'inf' }, 'Infinity', true],
    [{ D: '7' }, '7', true],
    [{ D: '0.50' }, '0.5', true],
    [{ D: '0.1' }, '0.1', false],
    [{ D: '7E+2' }, '700', true],
    [{ D: '1E-3' }, '0.001', false],
    [{ D: '1E+999999999' }, '1', false],
    [{ D: 'NaN' }, 'NaN', false],
    [{ q: '1/2' }, '0.5', true],
    [{ l: [{ q: '2' }] }, '[2]', true],
    [{ q: '-1/3' }, '-0.3333333333333333', false],
    [{ c: ['7.0', '0.0'] }, '7', true],
    [{ c: ['7.0', '1.0'] }, '7', false],
    [null, 'null', true],
    [null, '0', false],
    ['1', '1', false],
    [{ l: [1, { l: [2] }] }, '[1,[2]]', true],
    [{ t: [1, 2] }, '[1,2]', true],
    [{ l: [{ t: [1, 2] }] }, '[[1,2]]', false],
    [{ l: [1] }, '[1,2]', false],
    [{ S: [1] }, '[1]', false],
    [{ d: [['a', 1]] }, '{"a": 1}', true],
    [
      {
        d: [
          ['b', 1],
          ['a', { l: [] }],
        ],
      },
      '{"a": [], "b": 1}',
      true,
    ],
    [{ d: [[1, 1]] }, '{"1": 1}', false],
    [
      {
        d: [
          ['a', 1],
          ['a', 1],
        ],
      },
      '{"a": 1, "b": 1}',
      false,
    ],
    [{ d: [] }, '{}', true],
    [{ l: [] }, '{}', false],
    [{ d: [] }, '[]', false],
    [{ o: 'Equal', at: 1 }, '1', false],
  ])('%j against %s: %s', (given, expected, same) => expect(equal(given, expected)).toBe(same));

  it.each([{}, { i: 'x' }, { i: 5 }, { f: null }, { l: 'ab' }, { d: [5] }, { d: [['a']] }, { zz: [] }])(
    'equals nothing if it is malformed: %j',
    (given) => {
      for (const expected of ['1', '[]', '{}', 'null', '"ab"', '{"a":1}']) expect(equal(given, expected)).toBe(false);
    },
  );
});
