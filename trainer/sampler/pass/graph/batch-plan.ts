/**
 * The index arrays of one forward pass. Rows of a batch differ only in the pages that they read and write. Padding rows
 * and padding tokens read finite values, write to the spill page, and no other row reads them.
 */

import { GRAPH_LAYOUT } from '../../cache/cache-budget.ts';

/**
 * Positions per page of the cache, and the length of every sum in attention. It is fixed, so that a longer context adds
 * whole sums and changes none of the others.
 */
export const pageSize = GRAPH_LAYOUT.blockSize;

export interface CacheLayout {
  /** Pages that sequences may hold. */
  readonly pages: number;
  readonly kvHeads: number;
  /** Query heads per key-value head. */
  readonly group: number;
}

/** Index of the page that padding tokens write to; it is never read. */
export const spillPage = ({ pages }: CacheLayout): number => pages;
/** Index of the page of zeros that padding reads; it is never written. */
export const nullPage = (layout: CacheLayout): number => spillPage(layout) + 1;
export const pageCount = (layout: CacheLayout): number => spillPage(layout) + 2;

/** One sequence's part of a pass: tokens `from` to `from + count - 1` are new, the earlier ones are in the cache. */
export interface BatchRow {
  /** The sequence's pages, in order. */
  readonly pages: readonly number[];
  readonly tokens: readonly number[];
  readonly from: number;
  readonly count: number;
  /** True if the logits of every new token are wanted, not only those of the last one. */
  readonly every?: boolean;
}

/** Number of rows of logits that a row of the batch gives. */
export const wantedLogits = ({ count, every }: BatchRow): number => (every === true ? count : 1);

export interface BatchPlan {
  readonly rows: number;
  /** New tokens per row, padded. */
  readonly width: number;
  /** Queries per row and key-value head: `width * group`, padded. */
  readonly queries: number;
  /** Number of pages that all rows together read, padded. */
  readonly chunks: number;
  /** `[rows * width]` */
  readonly tokens: Int32Array;
  /** `[rows * width]` */
  readonly positions: Int32Array;
  /** `[rows * width * kvHeads, 3]`: page, key-value head, offset. */
  readonly scatter: Int32Array;
  /** `[chunks]` */
  readonly pages: Int32Array;
  /** `[chunks]`, ascending */
  readonly chunkRows: Int32Array;
  /** `[chunks * queries]`: number of positions of the page that the query sees, 0 to `pageSize`. */
  readonly visible: Int32Array;
  /** Indices into the flat tokens: each row's last new token, or all of its new tokens; padded. */
  readonly last: Int32Array;
}

/**
 * On a processor with AVX2 only, oneDNN multiplies six rows at a time. For a remainder of one to three rows it takes
 * kernels that add in another order. Row counts are multiples of six, so that there is no remainder. Each shape costs a
 * compilation of its kernels: these steps give few shapes and little padding.
 */
const steps = [6, 12, 18, 24, 36, 48, 60, 72, 96, 120, 144] as const;

/**
 * More rows than this are multiplied in blocks of 48, and the last 73 to 95 (145 to 191 in wide blocks of 96) as two
 * halves: 90 as 45 and 45, each with a remainder of three. Halves of multiples of twelve have no remainder.
 */
const oneBlock = 72;

/** True if a product of so many rows, a multiple of six, has no remainder in any of its blocks. */
const blocksAreWhole = (rows: number): boolean => rows <= oneBlock || rows % 12 === 0;

function roundUp(value: number): number {
  return steps.find((step) => step >= value) ?? Math.ceil(value / 36) * 36;
}

/** The fewest rows >= `count` with a remainder of 0, 4 or 5: the kernel for six rows also takes four or five. */
function wholeRows(count: number): number {
  const over = count % 6;
  return over === 0 || over >= 4 ? count : count - over + 4;
}

/** Number of queries of a row and key-value head in a pass with one new token per row. */
export const decodeQueries = (layout: CacheLayout): number => wholeRows(layout.group);

/** The padded number of new tokens per row. Each key-value head multiplies `group` times as many queries. */
export function paddedWidth({ group }: CacheLayout, count: number): number {
  if (count === 1) return 1;
  const width = roundUp(count);
  return blocksAreWhole(width * group) ? width : roundUp(width + 1);
}

/** The padded number of rows of a pass: the products over all of its tokens have `rows * width` rows. */
function paddedRows(rows: number, width: number): number {
  if (width === 1) return roundUp(rows);
  return blocksAreWhole(rows * width) ? rows : rows + 1;
}

const pagesOf = (row: BatchRow): number => Math.ceil((row.from + row.count) / pageSize);

function fillTokens(plan: BatchPlan, layout: CacheLayout, rows: readonly BatchRow[]): void {
  const { kvHeads } = layout;
  for (let r = 0; r < plan.rows; r++) {
    const row = rows[r];
    for (let j = 0; j < plan.width; j++) {
      const real = row !== undefined && j < row.count;
      const position = real ? row.from + j : 0;
      const at = r * plan.width + j;
      plan.tokens[at] = real ? (row.tokens[position] ?? 0) : 0;
      plan.positions[at] = position;
      const page = (real ? row.pages[Math.floor(position / pageSize)] : undefined) ?? spillPage(layout);
      for (let h = 0; h < kvHeads; h++) {
        plan.scatter.set([page, h, (real ? position : j) % pageSize], (at * kvHeads + h) * 3);
      }
    }
  }
}

/** Fills `visible` of chunk `c`, page number `page` of `row`. Padding sees one position, to avoid 0 / 0. */
function fillVisible(plan: BatchPlan, c: number, row: BatchRow | undefined, page: number): void {
  const group = plan.queries / plan.width;
  for (let j = 0; j < plan.width; j++) {
    const position = row !== undefined && j < row.count ? row.from + j : 0;
    const seen = Math.max(0, Math.min(pageSize, position + 1 - page * pageSize));
    const at = (c * plan.width + j) * group;
    plan.visible.fill(seen, at, at + group);
  }
}

function fillChunks(plan: BatchPlan, layout: CacheLayout, rows: readonly BatchRow[]): void {
  let c = 0;
  for (let r = 0; r < plan.rows; r++) {
    const row = rows[r];
    for (let page = 0; page < (row === undefined ? 1 : pagesOf(row)); page++, c++) {
      plan.pages[c] = row?.pages[page] ?? nullPage(layout);
      plan.chunkRows[c] = r;
      fillVisible(plan, c, row, page);
    }
  }
  // Padding chunks have no visible position, so they add exact zeros to the last row.
  plan.pages.fill(nullPage(layout), c);
  plan.chunkRows.fill(plan.rows - 1, c);
}

/** Plans one pass over `rows` (at least one; each `count` at least 1). */
export function planBatch(layout: CacheLayout, rows: readonly BatchRow[]): BatchPlan {
  const width = paddedWidth(layout, Math.max(...rows.map((row) => row.count)));
  const count = paddedRows(rows.length, width);
  const queries = width === 1 ? decodeQueries(layout) : width * layout.group;
  const tokens = count * width;
  const chunks = roundUp(rows.reduce((sum, row) => sum + pagesOf(row), 0) + count - rows.length);
  const plan: BatchPlan = {
    rows: count,
    width,
    queries,
    chunks,
    tokens: new Int32Array(tokens),
    positions: new Int32Array(tokens),
    scatter: new Int32Array(tokens * layout.kvHeads * 3),
    pages: new Int32Array(chunks),
    chunkRows: new Int32Array(chunks),
    visible: new Int32Array(chunks * queries),
    last: new Int32Array(roundUp(rows.reduce((sum, row) => sum + wantedLogits(row), 0))),
  };
  fillTokens(plan, layout, rows);
  fillChunks(plan, layout, rows);
  plan.last.set(
    rows.flatMap((row, r) =>
      Array.from({ length: wantedLogits(row) }, (_, i) => r * width + row.count - wantedLogits(row) + i),
    ),
  );
  return plan;
}
