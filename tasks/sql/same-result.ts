/** Whether two results are the same: as sets of rows, or as bags or lists of rows up to the order of columns. */

import { rowKey, type SqlRow, valueKey } from '../../agents/tools/sql/sql-request.ts';

/** SkyRL's and BIRD's rule: equal sets of rows. The order of columns matters; that of rows and duplicates do not. */
export function sameSet(gold: readonly SqlRow[], given: readonly SqlRow[]): boolean {
  const [one, other] = [new Set(gold.map(rowKey)), new Set(given.map(rowKey))];
  return one.size === other.size && [...one].every((key) => other.has(key));
}

const columnsOf = (rows: readonly SqlRow[], width: number): string[][] =>
  Array.from({ length: width }, (_, i) => rows.map((row) => valueKey(row[i] ?? null)));

const sorted = (texts: readonly string[]): string[] => texts.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0));

/** Steps of the search for an order of columns, in cells. */
const MOST_CELLS = 10_000_000;

/**
 * Numbers the rows by what is known of them: `known` refined by one more column. Rows of both results have the same
 * number if they agree. `undefined` if the two bags of rows differ.
 */
function refined(
  known: readonly [readonly number[], readonly number[]],
  columns: readonly [readonly string[], readonly string[]],
): [number[], number[]] | undefined {
  const ids = new Map<string, number>();
  const counts: number[] = [];
  const number = (side: 0 | 1, change: 1 | -1): number[] =>
    columns[side].map((value, row) => {
      const key = `${known[side][row]} ${value}`;
      const id = ids.get(key) ?? ids.size;
      ids.set(key, id);
      counts[id] = (counts[id] ?? 0) + change;
      return id;
    });
  const both: [number[], number[]] = [number(0, 1), number(1, -1)];
  return counts.every((count) => count === 0) ? both : undefined;
}

interface Column {
  readonly cells: readonly string[];
  /** Equal for equal cells in the same order. */
  readonly list: string;
  /** Equal for equal cells in any order. */
  readonly bag: string;
}

const columnOf = (cells: readonly string[]): Column => ({
  cells,
  list: JSON.stringify(cells),
  bag: JSON.stringify(sorted(cells)),
});

/** Looks for an order of the given columns in which both bags of rows are the same. */
class ColumnSearch {
  readonly #gold: readonly Column[];
  readonly #given: readonly Column[];
  #cells = 0;

  constructor(gold: readonly string[][], given: readonly string[][]) {
    this.#gold = gold.map(columnOf);
    this.#given = given.map(columnOf);
  }

  find(column: number, free: readonly number[], known: readonly [readonly number[], readonly number[]]): boolean {
    const wanted = this.#gold[column];
    if (wanted === undefined) return true;
    const tried = new Set<string>();
    for (const candidate of free) {
      const given = this.#given[candidate];
      // Columns with the same cells are the same choice.
      if (given === undefined || given.bag !== wanted.bag || tried.has(given.list)) continue;
      tried.add(given.list);
      this.#cells += 2 * given.cells.length;
      if (this.#cells > MOST_CELLS) return false;
      const next = refined(known, [wanted.cells, given.cells]);
      const rest = free.filter((one) => one !== candidate);
      if (next !== undefined && this.find(column + 1, rest, next)) return true;
    }
    return false;
  }
}

/**
 * The rule of Spider's test suites: equal bags of rows, or with `ordered` equal lists, up to the order of columns. Two
 * empty results are equal. Of a result with many columns whose cells are alike, a search without end is given up.
 */
export function sameBag(gold: readonly SqlRow[], given: readonly SqlRow[], ordered: boolean): boolean {
  if (gold.length !== given.length) return false;
  const width = gold[0]?.length ?? 0;
  if (gold.length === 0) return true;
  if (given[0]?.length !== width) return false;
  const [wanted, found] = [columnsOf(gold, width), columnsOf(given, width)];
  // In order, the columns are the same if each of them is found as often as it is wanted.
  const lists = (columns: readonly string[][]): string =>
    JSON.stringify(sorted(columns.map((one) => JSON.stringify(one))));
  if (ordered) return lists(wanted) === lists(found);
  const start = gold.map(() => 0);
  return new ColumnSearch(wanted, found).find(0, [...found.keys()], [start, start]);
}
