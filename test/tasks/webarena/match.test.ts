/** Hunts a text or an address that is compared otherwise than WebArena's evaluators compare it. */
import { expect, it } from 'vitest';
import { cleanAnswer, exactMatch, mustInclude, tokensOf, urlMatches } from '../../../tasks/webarena/match.ts';
import { postUrl } from '../../../tasks/webarena/locators.ts';

it('an answer loses blanks around it, one pair of quotes, and its case', () => {
  for (const [given, clean] of [
    [' Yes ', 'yes'],
    ['"Yes"', 'yes'],
    ["'' Yes ''", "' yes '"],
    ['"Yes\'', '"yes\''],
    ['"', ''],
    ['\u001cA\u00a0', 'a'],
    ['\ufeffa', '\ufeffa'],
    ['" a "', ' a '],
  ] as const)
    expect(cleanAnswer(given), given).toBe(clean);
  expect(exactMatch('N/A', ' "n/a" ')).toBe(true);
  expect(exactMatch('a', 'ab')).toBe(false);
});

it('a reference of one character must be a token where it is the only one', () => {
  for (const [pred, has] of [
    ['0', true],
    ['10', false],
    ['0.5', false],
    ['there are 0 of them', true],
    ['it is 0.', true],
    ['0, none', true],
    ['(0)', true],
    ['$0', true],
    ['0%', true],
    ['1,000', false],
    ['a0', false],
    ['0-1', false],
    ['0/1', false],
    ['"0"', true],
    ['x: 0; y', true],
    ['0?', true],
    ['0:30', false],
  ] as const)
    expect(mustInclude('0', pred, true), pred).toBe(has);
  expect(mustInclude('0', '10', false)).toBe(true);
  expect(mustInclude('10', '210', true)).toBe(true);
  expect(mustInclude('', 'anything', true)).toBe(true);
  expect(tokensOf('don"t stop... at 5 o\'clock.')).toContain('5');
});

it('a text of half a million characters is compared in time that grows with its length', () => {
  for (const char of [' ', '.', "'", '"', '0', '/', '-', '$', ') ']) {
    const long = `x.${char.repeat(500_000)}x`;
    expect(mustInclude('7', long, true), char).toBe(false);
    expect(urlMatches('http://a/b', `http://a/${long}`), char).toBe(false);
  }
});

it('an address must have one of the hosts and paths in it, and a value of each key', () => {
  const cases: ReadonlyArray<readonly [string, string, boolean]> = [
    ['http://a.b/c', 'http://a.b/c/', true],
    ['http://a.b/c/', 'https://a.b/c/d', true],
    ['http://a.b/c', 'http://x/?u=a.b/c', false],
    ['http://a.b/c', 'http://a.b/d', false],
    ['http://a.b/x |OR| http://a.b/y', 'http://a.b/y', true],
    ['http://a.b/x?k=1', 'http://a.b/x?j=2&k=1', true],
    ['http://a.b/x?k=1', 'http://a.b/x', false],
    ['http://a.b/x?k=1&k=2', 'http://a.b/x?k=2', true],
    ['http://a.b/x?k=1 |OR| http://a.b/y?k=2', 'http://a.b/x?k=2', true],
    ['http://a.b/x?k=a+b', 'http://a.b/x?k=a%20b', true],
    ['http://a.b/x?k=', 'http://a.b/x', true],
    ['http://a.b/x#frag', 'http://a.b/x', true],
    ['http://a.b/x;p=1', 'http://a.b/x', true],
    ['http://a.b/X', 'http://a.b/x', false],
    ['http://a.b', 'http://a.b:80/', true],
  ];
  for (const [reference, url, matches] of cases)
    expect(urlMatches(reference, url), `${reference} in ${url}`).toBe(matches);
});

it('a post has the address of its forum and number', () => {
  expect(postUrl('http://r:1/f/books/12/title/-/comment/3?x=1')).toBe('http://r:1/f/books/12/');
  expect(postUrl('http://r:1/f/books')).toBe('http://r:1/f/books');
  expect(postUrl('http://r:1/user/a/b/c')).toBe('http://r:1/user/a/b/c');
});
