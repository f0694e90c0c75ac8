/**
 * Gradients of an adapter's A, B and whole tensors, summed over micro-batches; gradients of base weights are not
 * stored.
 */

import { type GradientSink, type Sum, concatenate, keepSums, plus } from '../model/gradients.ts';
import { type Tensor, inGraph, mul, slice } from '../model/layers/kernels.ts';
import { type Policy, foldedInto } from '../model/policy.ts';
import type { Adapter } from './adapter.ts';
import { moduleOf } from './adapter-config.ts';
import { segmentKey } from './adapter-layout.ts';

export class AdapterGradients implements GradientSink {
  readonly #policy: Policy;
  readonly #adapter: Adapter;
  /** For each segment's key, the norm that is folded into it. */
  readonly #norms: ReadonlyMap<string, string>;
  readonly #sums = new Map<string, Tensor>();

  constructor(policy: Policy, adapter: Adapter) {
    this.#policy = policy;
    this.#adapter = adapter;
    this.#norms = new Map(
      foldedInto(policy.config).flatMap(({ norm, matrices }) => matrices.map((key) => [key, norm] as const)),
    );
  }

  wants(key: string): boolean {
    return this.#adapted(key).length > 0;
  }

  plus(key: string, gradient: Tensor): Sum[] {
    const norm = this.#norms.get(key);
    return this.#adapted(key).flatMap(({ module, from, rows }) => {
      const part = slice(gradient, [from, 0], [rows, -1]);
      const unfolded = norm === undefined ? part : mul(part, this.#policy.view(norm));
      if (this.#adapter.isSaved(module)) return [plus(this.#sums, module, unfolded)];
      const { A, B } = this.#adapter.project(module, unfolded);
      return [plus(this.#sums, segmentKey(module, 'A'), A), plus(this.#sums, segmentKey(module, 'B'), B)];
    });
  }

  keep(sums: readonly Sum[]): void {
    keepSums(this.#sums, sums);
  }

  flatten(): Tensor {
    const flat = inGraph(() => concatenate(this.#adapter.layout, this.#sums));
    this.clear();
    return flat;
  }

  clear(): void {
    for (const sum of this.#sums.values()) sum.dispose();
    this.#sums.clear();
  }

  /** The modules of a segment that the adapter changes, and their rows in it. */
  #adapted(key: string): Array<{ readonly module: string; readonly from: number; readonly rows: number }> {
    if (!this.#policy.has(key)) return [];
    const { parts, columns, offset } = this.#policy.segment(key);
    return parts.flatMap((part) => {
      const module = moduleOf(part.name);
      if (!this.#adapter.changes(module)) return [];
      return [{ module, from: (part.offset - offset) / columns, rows: part.size / columns }];
    });
  }
}
