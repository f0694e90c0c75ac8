/** Results that are the same by each rule, against a search through all orders of columns. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { rowKey, type SqlRow } from '../../../agents/tools/sql/sql-request.ts';
import { sameBag, sameSet } from '../../../tasks/sql/same-result.ts';

/** Few values, so that rows, columns and duplicates meet by chance. 1 and 1.0 are equal, 1 and '1' are not. */
const cell = fc.constantFrom(null, 0n, 1n, 1, 1.5, '', '1', 'a', new Uint8Array([1]));
const table = (width: number) => fc.array(fc.array(cell, { minLength: width, maxLength: width }), { maxLength: 6 });
const width = fc.integer({ min: 1, max: 4 });
const tables = width.chain((columns) => fc.tuple(table(columns), table(columns)));

const orders = (n: number): number[][] =>
  n === 0 ? [[]] : orders(n - 1).flatMap((rest) => Array.from({ length: n }, (_, at) => rest.toSpliced(at, 0, n - 1)));
const permuted = (rows: readonly SqlRow[], order: readonly number[]): SqlRow[] =>
  rows.map((row) => order.map((from) => row[from] ?? null));

/** The rule as Spider's evaluation says it. */
function reference(gold: readonly SqlRow[], given: readonly SqlRow[], ordered: boolean): boolean {
  if (gold.length === 0 && given.length === 0) return true;
  if (gold.length !== given.length || gold[0]!.length !== given[0]!.length) return false;
  const listOf = (rows: readonly SqlRow[]): string => {
    const keys = rows.map(rowKey);
    return JSON.stringify(ordered ? keys : keys.toSorted());
  };
  return orders(gold[0]!.length).some((order) => listOf(permuted(given, order)) === listOf(gold));
}

describe('sameBag', () => {
  it('is the rule, for any two results', () => {
    fc.assert(
      fc.property(tables, fc.boolean(), ([gold, given], ordered) => {
        expect(sameBag(gold, given, ordered)).toBe(reference(gold, given, ordered));
      }),
    );
  });

  it('accepts any order of columns, and any order of rows unless the gold query has one', () => {
    const shuffled = width.chain((columns) =>
      table(columns).chain((rows) =>
        fc.tuple(
          fc.constant(rows),
          fc.shuffledSubarray([...Array.from({ length: columns }).keys()], { minLength: columns }),
          fc.shuffledSubarray([...rows.keys()], { minLength: rows.length }),
        ),
      ),
    );
    fc.assert(
      fc.property(shuffled, ([rows, columns, order]) => {
        const given = permuted(rows, columns);
        expect(sameBag(rows, given, true)).toBe(true);
        const moved = order.map((row) => given[row]!);
        expect(sameBag(rows, moved, false)).toBe(true);
        expect(sameBag(rows, moved, true)).toBe(reference(rows, moved, true));
      }),
    );
  });

  it('counts duplicates', () => {
    fc.assert(
      fc.property(table(2), fc.nat(), (rows, n) => {
        fc.pre(rows.length > 0);
        const twice = [...rows, rows[n % rows.length]!];
        expect(sameBag(rows, twice, false)).toBe(false);
        expect(sameSet(rows, twice)).toBe(true);
      }),
    );
  });

  it('does not search without end where columns are alike', () => {
    const many = Array.from({ length: 12 }, (_, row) =>
      Array.from({ length: 40 }, (__, column) => BigInt((row + column) % 2)),
    );
    expect(sameBag(many, many.toReversed(), false)).toBe(true);
    const latin = (shift: number) =>
      Array.from({ length: 16 }, (_, row) =>
        Array.from({ length: 16 }, (__, column) => BigInt((row * (shift + column)) % 17)),
      );
    expect(typeof sameBag(latin(1), latin(2), false)).toBe('boolean');
  });
});

describe('sameSet', () => {
  it('ignores the order of rows, not that of columns', () => {
    expect(
      sameSet(
        [
          [1n, 'a'],
          [2n, 'b'],
        ],
        [
          [2, 'b'],
          [1, 'a'],
          [1n, 'a'],
        ],
      ),
    ).toBe(true);
    expect(sameSet([[1n, 'a']], [['a', 1n]])).toBe(false);
    expect(sameSet([], [])).toBe(true);
    expect(sameSet([[null]], [['']])).toBe(false);
    expect(sameSet([[9007199254740993n]], [[9007199254740992]])).toBe(false);
  });
});
