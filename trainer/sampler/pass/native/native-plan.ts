/** The rows of a pass as flat arrays for the compiled decoder, which checks nothing: everything is checked here. */

import type { DecoderAdapter, PassResult, PassRow } from '../decoder.ts';

export interface PlanLimits {
  readonly vocabulary: number;
  readonly positions: number;
  readonly blocks: number;
  readonly blockSize: number;
}

export interface NativePlan {
  /** `[tokens]`, sequence after sequence. */
  readonly ids: Int32Array;
  /** `[rows + 1]`: index of each row's first token in `ids`, then the number of tokens. */
  readonly starts: Int32Array;
  /** `[rows]`: the position of each row's first token. */
  readonly begins: Int32Array;
  /** The blocks of all rows, and the index of each row's first block, `[rows]`. */
  readonly tables: Int32Array;
  readonly tableStarts: Int32Array;
  /** The adapters of the rows, each once, and each row's index in them, `[rows]`; -1: none. */
  readonly adapters: readonly DecoderAdapter[];
  readonly adapterOf: Int32Array;
  /** `[ends]`: tokens whose logits are wanted, each with a temperature for a draw, or NaN for the logits themselves. */
  readonly endTokens: Int32Array;
  readonly temperatures: Float64Array;
  readonly uniforms: Float64Array;
  readonly limit: number;
  /** Filled by the pass. */
  readonly chosen: Int32Array;
  readonly logprobs: Float64Array;
  readonly logits: Float32Array;
  /** Reads the results of the pass from these arrays, row by row. */
  readonly results: () => PassResult[];
}

const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
const endsOf = ({ want, count }: PassRow): number => (want === 'every' ? count : Number(want !== 'nothing'));
const isDraw = ({ want }: PassRow): boolean => typeof want === 'object';

function check({ tokens, from, count, blocks, want }: PassRow, limits: PlanLimits): void {
  const until = from + count;
  if (count < 1 || until > limits.positions || until > tokens.length)
    throw new RangeError(`tokens ${from} to ${until} of ${tokens.length} cannot be computed`);
  if (blocks.length * limits.blockSize < until)
    throw new RangeError(`${blocks.length} blocks have no room for ${until} positions`);
  for (const block of blocks)
    if (!(block >= 0 && block < limits.blocks)) throw new RangeError(`there is no block ${block}`);
  if (typeof want === 'object' && !(want.limit >= 1 && want.limit <= limits.vocabulary))
    throw new RangeError(`ids below ${want.limit} cannot be drawn`);
}

function fillTokens(ids: Int32Array, at: number, { tokens, from, count }: PassRow, vocabulary: number): void {
  for (let i = 0; i < count; i++) {
    const id = tokens[from + i] ?? -1;
    if (!(id >= 0 && id < vocabulary)) throw new RangeError(`there is no token ${id}`);
    ids[at + i] = id;
  }
}

/** Errors: `RangeError` if a row does not fit its blocks or the model. */
export function flattenRows(rows: readonly PassRow[], limits: PlanLimits): NativePlan {
  const ends = sum(rows.map(endsOf));
  const ids = new Int32Array(sum(rows.map(({ count }) => count)));
  const [starts, begins, tableStarts] = [
    new Int32Array(rows.length + 1),
    new Int32Array(rows.length),
    new Int32Array(rows.length),
  ];
  const tables = new Int32Array(sum(rows.map(({ blocks }) => blocks.length)));
  const [endTokens, temperatures, uniforms] = [
    new Int32Array(ends),
    new Float64Array(ends).fill(Number.NaN),
    new Float64Array(ends),
  ];
  let [token, block, end, limit] = [0, 0, 0, limits.vocabulary];
  rows.forEach((row, r) => {
    check(row, limits);
    fillTokens(ids, token, row, limits.vocabulary);
    begins[r] = row.from;
    tableStarts[r] = block;
    tables.set(row.blocks, block);
    block += row.blocks.length;
    token += row.count;
    starts[r + 1] = token;
    for (let rest = endsOf(row); rest > 0; rest--, end++) endTokens[end] = token - rest;
    if (typeof row.want !== 'object') return;
    [temperatures[end - 1], uniforms[end - 1], limit] = [row.want.temperature, row.want.uniform, row.want.limit];
  });
  const adapters = [...new Set(rows.flatMap(({ adapter }) => (adapter === undefined ? [] : [adapter])))];
  const numbers = new Map<DecoderAdapter | undefined, number>(adapters.map((adapter, i) => [adapter, i]));
  const adapterOf = Int32Array.from(rows, ({ adapter }) => numbers.get(adapter) ?? -1);
  const raw = sum(rows.map((row) => (isDraw(row) ? 0 : endsOf(row))));
  const [chosen, logprobs, logits] = [
    new Int32Array(ends),
    new Float64Array(ends),
    new Float32Array(raw * limits.vocabulary),
  ];
  const results = (): PassResult[] => readResults(rows, { chosen, logprobs, logits }, limits.vocabulary);
  return {
    ids,
    starts,
    begins,
    tables,
    tableStarts,
    adapters,
    adapterOf,
    endTokens,
    temperatures,
    uniforms,
    limit,
    chosen,
    logprobs,
    logits,
    results,
  };
}

function readResults(
  rows: readonly PassRow[],
  { chosen, logprobs, logits }: Pick<NativePlan, 'chosen' | 'logprobs' | 'logits'>,
  vocabulary: number,
): PassResult[] {
  let [end, raw] = [0, 0];
  return rows.map((row) => {
    const count = endsOf(row);
    end += count;
    if (!isDraw(row))
      return { logits: Array.from({ length: count }, () => logits.subarray(raw * vocabulary, ++raw * vocabulary)) };
    const token = chosen[end - 1] ?? -1;
    return { drawn: token < 0 ? undefined : { token, logprob: logprobs[end - 1] ?? Number.NaN } };
  });
}
