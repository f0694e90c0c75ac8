/**
 * An adapter beside its base: y = W·x + s·B·(A·x), with gradients for A and B alone. No matrix of the base's size is
 * made for it.
 */

import type { LowRank } from '../model/decoder.ts';
import { type GradientSink, type Sum, concatenate, keepSums, plus } from '../model/gradients.ts';
import { type Tensor, concat, inGraph, matMul, mul, scale, scope, slice } from '../model/layers/kernels.ts';
import { type Policy, foldedInto } from '../model/policy.ts';
import { Adapter } from '../lora/adapter.ts';
import { moduleOf } from '../lora/adapter-config.ts';
import { type AdapterWeights, segmentKey } from '../lora/adapter-layout.ts';
import { tf } from '../tensorflow.ts';

/** One module's part of a matrix that the decoder reads whole, such as the queries' of `qk`. */
interface Piece {
  readonly module: string;
  /** Its rows of the matrix, and its columns of the stacked rank. */
  readonly row: number;
  readonly rows: number;
  readonly from: number;
  readonly rank: number;
  /** [in] or [1]: the scaling, times the norm that is folded into the matrix. */
  readonly factor: Tensor;
}

/** A matrix's modules as one product: A has their ranks stacked, B is block-diagonal. */
interface Pair {
  /** [rank, in], scaled and with the norm folded in. */
  readonly A: Tensor;
  /** [out, rank]. */
  readonly B: Tensor;
}

interface Matrix {
  readonly rows: number;
  readonly rank: number;
  readonly pieces: readonly Piece[];
}

export class LowRankAdapter implements LowRank {
  readonly adapter: Adapter;
  readonly #matrices: ReadonlyMap<string, Matrix>;
  #pairs: ReadonlyMap<string, Pair> | undefined;

  /** Errors: `UnsupportedAdapter`, `WrongWeights`. */
  constructor(base: Policy, weights: AdapterWeights) {
    this.adapter = new Adapter(base.layout, weights, () => this.#dropPairs());
    this.#matrices = matricesOf(base, this.adapter);
  }

  has(key: string): boolean {
    return this.#matrices.has(key);
  }

  /** Makes the products' matrices, unless they are those of the weights already. Call it outside of a graph. */
  prepare(): void {
    this.#pairs ??= scope(() => {
      const pairs = new Map([...this.#matrices].map(([key, matrix]) => [key, pairOf(this.adapter, matrix)]));
      for (const { A, B } of pairs.values()) [A, B].forEach((tensor) => tf.keep(tensor));
      return pairs;
    });
  }

  forward(key: string, x: Tensor): Tensor | undefined {
    const pair = this.#pair(key);
    return pair && matMul(matMul(x, pair.A, false, true), pair.B, false, true);
  }

  backward(key: string, dy: Tensor): Tensor | undefined {
    const pair = this.#pair(key);
    return pair && matMul(matMul(dy, pair.B), pair.A);
  }

  /** Gradients of each module's A and B by segment keys, from the product's dy [rows, out] and x [rows, in]. */
  gradients(key: string, dy: Tensor, x: Tensor): Array<readonly [key: string, gradient: Tensor]> {
    const [pair, matrix] = [this.#pair(key), this.#matrices.get(key)];
    if (pair === undefined || matrix === undefined) return [];
    const dA = matMul(matMul(dy, pair.B), x, true);
    const dB = matMul(dy, matMul(x, pair.A, false, true), true);
    return matrix.pieces.flatMap(({ module, row, rows, from, rank, factor }) => [
      [segmentKey(module, 'A'), mul(slice(dA, [from, 0], [rank, -1]), factor)] as const,
      [segmentKey(module, 'B'), slice(dB, [row, from], [rows, rank])] as const,
    ]);
  }

  dispose(): void {
    this.#dropPairs();
    for (const { pieces } of this.#matrices.values()) for (const { factor } of pieces) factor.dispose();
    this.adapter.dispose();
  }

  #pair(key: string): Pair | undefined {
    if (this.#pairs === undefined) throw new Error('the adapter is not prepared');
    return this.#pairs.get(key);
  }

  #dropPairs(): void {
    for (const { A, B } of this.#pairs?.values() ?? []) tf.dispose([A, B]);
    this.#pairs = undefined;
  }
}

function matricesOf(base: Policy, adapter: Adapter): ReadonlyMap<string, Matrix> {
  const norms = new Map(
    foldedInto(base.config).flatMap(({ norm, matrices }) => matrices.map((key) => [key, norm] as const)),
  );
  const matrices = new Map<string, Matrix>();
  for (const { key, parts, offset, columns, rows } of base.layout.segments) {
    const norm = norms.get(key);
    const pieces: Piece[] = [];
    let rank = 0;
    for (const part of parts) {
      const known = adapter.modules.get(moduleOf(part.name));
      if (known === undefined) continue;
      const factor = scope(() =>
        norm === undefined ? tf.tensor1d([known.scaling]) : scale(base.view(norm), known.scaling),
      );
      const row = (part.offset - offset) / columns;
      pieces.push({
        module: known.module,
        row,
        rows: known.rows,
        from: rank,
        rank: known.rank,
        factor: tf.keep(factor),
      });
      rank += known.rank;
    }
    if (pieces.length > 0) matrices.set(key, { rows, rank, pieces });
  }
  return matrices;
}

function pairOf(adapter: Adapter, { rows, rank, pieces }: Matrix): Pair {
  const A = concat(
    pieces.map(({ module, factor }) => mul(adapter.view(module, 'A'), factor)),
    0,
  );
  return { A, B: blockDiagonal(adapter, rows, rank, pieces) };
}

/** [rows, rank] with each piece's B in its place, and zeros elsewhere. */
function blockDiagonal(adapter: Adapter, rows: number, rank: number, pieces: readonly Piece[]): Tensor {
  const blocks: Tensor[] = [];
  const zeros = (height: number, width: number): Tensor[] =>
    height > 0 && width > 0 ? [tf.zeros([height, width])] : [];
  let at = 0;
  for (const { module, row, rows: own, from, rank: width } of pieces) {
    blocks.push(...zeros(row - at, rank));
    const B = adapter.view(module, 'B');
    blocks.push(concat([...zeros(own, from), B, ...zeros(own, rank - from - width)], 1));
    at = row + own;
  }
  return concat([...blocks, ...zeros(rows - at, rank)], 0);
}

/** Gradients of one pass, summed over its batches. */
export class LowRankGradients implements GradientSink {
  readonly #adapter: LowRankAdapter;
  readonly #sums = new Map<string, Tensor>();

  constructor(adapter: LowRankAdapter) {
    this.#adapter = adapter;
  }

  wants(key: string): boolean {
    return this.#adapter.has(key);
  }

  /** Gradients of the base itself are not used. */
  plus(): Sum[] {
    return [];
  }

  plusProduct(key: string, dy: Tensor, x: Tensor): Sum[] {
    return this.#adapter.gradients(key, dy, x).map(([segment, gradient]) => plus(this.#sums, segment, gradient));
  }

  keep(sums: readonly Sum[]): void {
    keepSums(this.#sums, sums);
  }

  flatten(): Tensor {
    const flat = inGraph(() => concatenate(this.#adapter.adapter.layout, this.#sums));
    this.clear();
    return flat;
  }

  clear(): void {
    for (const sum of this.#sums.values()) sum.dispose();
    this.#sums.clear();
  }
}
