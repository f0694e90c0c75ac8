/** The SwiGLU block (Shazeer 2020, eq. 6) and its gradient; the norm's weight is folded into gate and up. */

import { type Tensor, add, matMul, mul, plus, scope, sigmoid, sigmoidGrad } from './kernels.ts';

export interface MlpWeights {
  /** [intermediate, hidden], the norm's weight folded in; so is `up`. */
  readonly gate: Tensor;
  readonly up: Tensor;
  /** [hidden, intermediate]. */
  readonly down: Tensor;
}

export interface MlpSaved {
  readonly n: Tensor;
  readonly gate: Tensor;
  readonly up: Tensor;
  readonly swish: Tensor;
  readonly product: Tensor;
}

type Matrix = 'gate' | 'up' | 'down';

/** What is added to a product with the matrix of that key; `undefined`: nothing. */
export type Added = (key: Matrix, rows: Tensor) => Tensor | undefined;

/** [rows, hidden] → [rows, hidden]. */
export function mlp(n: Tensor, weights: MlpWeights, added: Added): { out: Tensor; saved: MlpSaved } {
  const times = (key: Matrix, x: Tensor): Tensor => plus(matMul(x, weights[key], false, true), added(key, x));
  return scope(() => {
    const gate = times('gate', n);
    const up = times('up', n);
    // In a graph TensorFlow fuses these two ops. Then there is no separate sigmoid to save.
    const swish = mul(gate, sigmoid(gate));
    const product = mul(swish, up);
    return { out: times('down', product), saved: { n, gate, up, swish, product } };
  });
}

/** Gradients of the block's input, and of the two products that it enters. */
export interface MlpGradient {
  readonly dn: Tensor;
  readonly dGate: Tensor;
  readonly dUp: Tensor;
}

/** swish′(g) = σ(g) + g · σ(g) · (1 − σ(g)). */
export function mlpGradient(dOut: Tensor, weights: MlpWeights, saved: MlpSaved, added: Added): MlpGradient {
  const back = (key: Matrix, dy: Tensor): Tensor => plus(matMul(dy, weights[key]), added(key, dy));
  return scope(() => {
    const dProduct = back('down', dOut);
    const dUp = mul(dProduct, saved.swish);
    const open = sigmoid(saved.gate);
    const slope = add(sigmoidGrad(open, saved.gate), open);
    const dGate = mul(mul(dProduct, saved.up), slope);
    return { dn: add(back('gate', dGate), back('up', dUp)), dGate, dUp };
  });
}
