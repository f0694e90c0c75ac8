/** Gradients of an adapter's A and B, summed over micro-batches: of the base's weights none is kept. */

import { type GradientSink, concatenate } from '../model/gradients.ts';
import { type Tensor, add, mul, scope, slice } from '../model/kernels.ts';
import { type Policy, foldedInto } from '../model/policy.ts';
import { tf } from '../tensorflow.ts';
import type { Adapter } from './adapter.ts';
import { moduleOf, segmentKey } from './adapter-layout.ts';

export class AdapterGradients implements GradientSink {
  readonly #policy: Policy;
  readonly #adapter: Adapter;
  /** The norm that is folded into a segment. */
  readonly #norms: ReadonlyMap<string, string>;
  readonly #sums = new Map<string, Tensor>();

  constructor(policy: Policy, adapter: Adapter) {
    this.#policy = policy;
    this.#adapter = adapter;
    this.#norms = new Map(foldedInto(policy.config).flatMap(({ norm, matrices }) => matrices.map((key) => [key, norm] as const)));
  }

  wants(key: string): boolean {
    return this.#adapted(key).length > 0;
  }

  add(key: string, gradient: Tensor): void {
    for (const { module, from, rows } of this.#adapted(key)) {
      const norm = this.#norms.get(key);
      const { A, B } = scope(() => {
        const part = slice(gradient, [from, 0], [rows, -1]);
        return this.#adapter.project(module, norm === undefined ? part : mul(part, this.#policy.view(norm)));
      });
      this.#sum(segmentKey(module, 'A'), A);
      this.#sum(segmentKey(module, 'B'), B);
    }
  }

  flatten(): Tensor {
    const flat = scope(() => concatenate(this.#adapter.layout, this.#sums));
    this.clear();
    return flat;
  }

  clear(): void {
    for (const sum of this.#sums.values()) sum.dispose();
    this.#sums.clear();
  }

  #sum(key: string, gradient: Tensor): void {
    const before = this.#sums.get(key);
    this.#sums.set(key, tf.keep(before === undefined ? tf.clone(gradient) : add(before, gradient)));
    tf.dispose(before === undefined ? [gradient] : [before, gradient]);
  }

  /** The adapted modules of a segment, and their rows in it. */
  #adapted(key: string): Array<{ readonly module: string; readonly from: number; readonly rows: number }> {
    if (!this.#policy.has(key)) return [];
    const { parts, columns, offset } = this.#policy.segment(key);
    return parts.flatMap((part) => {
      const module = moduleOf(part.name);
      if (!this.#adapter.modules.has(module)) return [];
      return [{ module, from: (part.offset - offset) / columns, rows: part.size / columns }];
    });
  }
}
