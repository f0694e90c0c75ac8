/** Python's `strip`, `split` and `isdigit`: answers that its graders call equal must be equal here. */

import { expect, test } from 'vitest';
import { minervaNormalized } from '../../tasks/math/minerva.ts';
import { isDigits, stripped, wordsOf } from '../../protocol/python-text.ts';

test.each([
  ['\u001c\u0085 a b\u3000\n', 'a b'],
  ['\ufeffa\u200b', '\ufeffa\u200b'],
  ['\u2028', ''],
  ['', ''],
])('%j without white space at its ends', (text, inner) => {
  expect(stripped(text)).toBe(inner);
});

test('words are between white space', () => {
  expect(wordsOf('\u001fa\u0085b \ufeff\tc\u2007')).toEqual(['a', 'b', '\ufeff', 'c']);
});

test.each([
  ['12', true],
  ['٣፩²', true],
  ['⓪⑴⒈❶\u{10a40}\u{1f100}', true],
  ['½', false],
  ['一', false],
  ['Ⅷ', false],
  ['-1', false],
  ['', false],
])('%j are digits: %j', (text, are) => {
  expect(isDigits(text)).toBe(are);
});

test('separators are removed between digits of any kind', () => {
  expect([minervaNormalized('1,⓪'), minervaNormalized('1,½')]).toEqual(['1⓪', '1,½']);
});
