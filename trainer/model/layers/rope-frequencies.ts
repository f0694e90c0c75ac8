/** The frequencies of rotary embeddings: a pure function of head size, base and scaling, rounded to float32. */

/** Llama 3.1's scaling: long wavelengths are stretched by `factor`, short ones kept, those between them blended. */
export interface Llama3Scaling {
  readonly type: 'llama3';
  readonly factor: number;
  readonly lowFreqFactor: number;
  readonly highFreqFactor: number;
  /** Context length before scaling. */
  readonly originalMaxPositions: number;
}

export interface RopeSettings {
  readonly headDim: number;
  readonly ropeTheta: number;
  readonly ropeScaling?: Llama3Scaling;
}

/** As `transformers` computes it (`_compute_llama3_parameters`). */
function llama3(frequency: number, scaling: Llama3Scaling): number {
  const { factor, lowFreqFactor, highFreqFactor, originalMaxPositions } = scaling;
  const wavelength = (2 * Math.PI) / frequency;
  if (wavelength > originalMaxPositions / lowFreqFactor) return frequency / factor;
  if (wavelength < originalMaxPositions / highFreqFactor) return frequency;
  const smooth = (originalMaxPositions / wavelength - lowFreqFactor) / (highFreqFactor - lowFreqFactor);
  return ((1 - smooth) * frequency) / factor + smooth * frequency;
}

/** [headDim / 2]: θ^(−2i / headDim) (RoFormer, Su et al. 2021, eq. 15), scaled. */
export function inverseFrequencies({ headDim, ropeTheta, ropeScaling }: RopeSettings): Float32Array {
  return Float32Array.from({ length: headDim / 2 }, (_, i) => {
    const frequency = Math.fround(1 / ropeTheta ** ((2 * i) / headDim));
    return ropeScaling === undefined ? frequency : llama3(frequency, ropeScaling);
  });
}
