/** Rotary embedding as two factors per channel, in the fused projection's layout, with the head norms' weights. */

import { inverseFrequencies, type RopeSettings } from '../model/layers/rope-frequencies.ts';

export interface RopeShape extends RopeSettings {
  readonly heads: number;
  readonly kvHeads: number;
}

/**
 * Angles as Hugging Face computes them (RoFormer, Su et al. 2021, eq. 34; halves instead of pairs): the inverse
 * frequencies and the angles are float32. Returns cosines and sines, each `[positions, headDim / 2]`.
 */
export function ropeAngles(positions: number, settings: RopeSettings): { cos: Float32Array; sin: Float32Array } {
  const half = settings.headDim / 2;
  const cos = new Float32Array(positions * half);
  const sin = new Float32Array(positions * half);
  for (const [i, frequency] of inverseFrequencies(settings).entries()) {
    for (let p = 0; p < positions; p++) {
      const angle = Math.fround(p * frequency);
      cos[p * half + i] = Math.cos(angle);
      sin[p * half + i] = Math.sin(angle);
    }
  }
  return { cos, sin };
}

/** One head's factors at one position: `u * factor[0..hd)` plus `swapped u * factor[hd..2hd)` is the rotated head. */
function headFactors(
  out: Float32Array,
  at: number,
  norm: Float32Array,
  scale: number,
  cos: Float32Array,
  sin: Float32Array,
): void {
  const half = cos.length;
  for (let i = 0; i < half; i++) {
    const [low, high] = [(norm[i] ?? 0) * scale, (norm[half + i] ?? 0) * scale];
    const [c, s] = [cos[i] ?? 0, sin[i] ?? 0];
    out[at + i] = low * c;
    out[at + half + i] = high * c;
    out[at + 2 * half + i] = -high * s;
    out[at + 3 * half + i] = low * s;
  }
}

/**
 * The table of one layer: `[positions, (heads + kvHeads) * 2 * headDim]`. Query heads carry the attention's
 * `1 / sqrt(headDim)`; `queryNorm` and `keyNorm` (`[headDim]`) are Qwen3's per-head RMSNorm weights, all 1 in
 * families without them.
 */
export function ropeTable(
  shape: RopeShape,
  positions: number,
  queryNorm: Float32Array,
  keyNorm: Float32Array,
): Float32Array {
  const { heads, kvHeads, headDim } = shape;
  const half = headDim / 2;
  const { cos, sin } = ropeAngles(positions, shape);
  const width = (heads + kvHeads) * 2 * headDim;
  const out = new Float32Array(positions * width);
  for (let p = 0; p < positions; p++) {
    const [c, s] = [cos.subarray(p * half, (p + 1) * half), sin.subarray(p * half, (p + 1) * half)];
    for (let z = 0; z < heads + kvHeads; z++) {
      const query = z < heads;
      headFactors(out, p * width + z * 2 * headDim, query ? queryNorm : keyNorm, query ? headDim ** -0.5 : 1, c, s);
    }
  }
  return out;
}
