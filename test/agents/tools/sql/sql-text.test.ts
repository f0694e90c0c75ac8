import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  codeOf,
  firstWord,
  isBlank,
  isNoStatement,
  mapCode,
  parametersOf,
  splitStatements,
  sqlParts,
} from '../../../../agents/tools/sql/sql-text.ts';

it('divides any text without loss', () => {
  const piece = fc.constantFrom("'", '"', '`', '[', ']', '--', '/*', '*/', '\n', ';', 'a', ' ', "''", 'SELECT');
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
      const text = pieces.join('');
      expect(
        sqlParts(text)
          .map((part) => part.text)
          .join(''),
      ).toBe(text);
      expect(mapCode(text, (code) => code)).toBe(text);
    }),
  );
});

it('knows literals, quoted names and comments from code', () => {
  expect(mapCode(`select 'a;''select' , "select" -- select\n, [select], select`, (code) => code.toUpperCase())).toBe(
    `SELECT 'a;''select' , "select" -- select\n, [select], SELECT`,
  );
  expect(codeOf("a'order by'b")).toBe('a b');
});

it.each([
  ['SELECT 1; SELECT 2;', ['SELECT 1', 'SELECT 2']],
  ["SELECT ';'; -- x;\n", ["SELECT ';'"]],
  [' ; ;', []],
  ['SELECT 1 /* ; */', ['SELECT 1 /* ; */']],
])('%j has the statements %j', (text, statements) => {
  expect(splitStatements(text)).toEqual(statements);
});

it('finds the first word after comments', () => {
  expect(firstWord('/* DELETE */ -- x\n  select 1')).toBe('SELECT');
  expect(firstWord('"select" 1')).toBe('');
  expect(firstWord('; /* x */;\n; select 1')).toBe('SELECT');
  expect(firstWord(';;')).toBe('');
  expect(firstWord('(SELECT 1)')).toBe('');
  expect(isBlank(' -- x')).toBe(true);
  expect(isBlank("''")).toBe(false);
});

it('takes time in proportion to the text', () => {
  for (const text of ["'".repeat(300_001), '/*'.repeat(150_000), '[-'.repeat(150_000), `"${'""'.repeat(150_000)}`])
    expect(
      sqlParts(text)
        .map((part) => part.text)
        .join(''),
    ).toBe(text);
});

it.each([
  ['SELECT 1', 0],
  ['SELECT ?', 1],
  ['SELECT ?, ?', 2],
  ['SELECT ?, ?1', 1],
  ['SELECT ?3', 3],
  ['SELECT :a, @b, :a, $c', 3],
  ["SELECT ':a', [?], a$b -- ?", 0],
])('%s has %i parameters', (sql, most) => expect(parametersOf(sql)).toBe(most));

it('knows a text without a statement', () => {
  expect([' ;', '-- a', ';/* b */;', ''].every(isNoStatement)).toBe(true);
  expect(["''", 'a', '; SELECT 1'].some(isNoStatement)).toBe(false);
});
