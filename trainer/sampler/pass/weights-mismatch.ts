/** Reads a policy's tensors by name and checks their shapes against `config.json`. */

import type { Weights } from '../../model/weights.ts';

/** The weights lack a tensor, or its shape differs from the one in `config.json`. */
export class WeightsMismatch extends Error {
  override readonly name = 'WeightsMismatch';
  readonly tensor: string;
  readonly expected: readonly number[];
  readonly found: readonly number[] | undefined;
  constructor(tensor: string, expected: readonly number[], found: readonly number[] | undefined) {
    const there = found === undefined ? 'none' : `[${found.join(', ')}]`;
    super(`tensor ${tensor}: config.json wants [${expected.join(', ')}], the weights have ${there}`);
    this.tensor = tensor;
    this.expected = expected;
    this.found = found;
  }
}

/** Errors: `WeightsMismatch`. */
export function tensorOf(weights: Weights, name: string, shape: readonly number[]): Float32Array {
  const found = weights.get(name);
  if (found === undefined || found.shape.join() !== shape.join()) throw new WeightsMismatch(name, shape, found?.shape);
  return found.data;
}
