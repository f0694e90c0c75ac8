/** Root-mean-square normalisation without its weight, which is folded into the next matrix; and its gradient. */

import { type Tensor, add, meanLast, mul, rsqrt, scope, square, sub } from './kernels.ts';

export interface Normalized {
  /** x / rms(x), like x: [rows, width]. */
  readonly n: Tensor;
  /** 1 / rms(x): [rows, 1]. */
  readonly inverse: Tensor;
}

/** n = x / sqrt(mean(x²) + ε) (Zhang and Sennrich 2019, eq. 4); `epsilon` is a scalar tensor. */
export function normalize(x: Tensor, epsilon: Tensor): Normalized {
  return scope(() => {
    const inverse = rsqrt(add(meanLast(square(x)), epsilon));
    return { n: mul(x, inverse), inverse };
  });
}

/** dL/dx = (dn − n · mean(dn · n)) / rms(x). */
export function normalizeGradient(dn: Tensor, { n, inverse }: Normalized): Tensor {
  return scope(() => mul(sub(dn, mul(n, meanLast(mul(dn, n)))), inverse));
}
