/** The SwiGLU block (Shazeer 2020, eq. 6) and its gradient; the norm's weight is folded into gate and up. */

import { type Tensor, add, matMul, mul, scope, sigmoid, sigmoidGrad } from './kernels.ts';

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

/** [rows, hidden] → [rows, hidden]. */
export function mlp(n: Tensor, weights: MlpWeights): { out: Tensor; saved: MlpSaved } {
  return scope(() => {
    const gate = matMul(n, weights.gate, false, true);
    const up = matMul(n, weights.up, false, true);
    // In a graph TensorFlow fuses these two ops. Then there is no separate sigmoid to save.
    const swish = mul(gate, sigmoid(gate));
    const product = mul(swish, up);
    return { out: matMul(product, weights.down, false, true), saved: { n, gate, up, swish, product } };
  });
}

export interface MlpGradient {
  readonly dn: Tensor;
  readonly gate: Tensor;
  readonly up: Tensor;
  readonly down: Tensor;
}

/** swish′(g) = σ(g) + g · σ(g) · (1 − σ(g)). */
export function mlpGradient(dOut: Tensor, weights: MlpWeights, saved: MlpSaved): MlpGradient {
  return scope(() => {
    const dProduct = matMul(dOut, weights.down);
    const down = matMul(dOut, saved.product, true);
    const dUp = mul(dProduct, saved.swish);
    const open = sigmoid(saved.gate);
    const slope = add(sigmoidGrad(open, saved.gate), open);
    const dGate = mul(mul(dProduct, saved.up), slope);
    return {
      dn: add(matMul(dGate, weights.gate), matMul(dUp, weights.up)),
      gate: matMul(dGate, saved.n, true),
      up: matMul(dUp, saved.n, true),
      down,
    };
  });
}
