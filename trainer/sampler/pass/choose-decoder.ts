/** What computes the sampler's passes on this machine. */

import { tensorflow } from '../../tensorflow.ts';
import type { DecoderKind } from './decoder.ts';
import { graphDecoderKind } from './graph/graph-decoder.ts';
import { NoNativeDecoder } from './native/native-binding.ts';
import { nativeDecoderKind } from './native/native-decoder.ts';

/** TensorFlow's graph where it has a GPU, or where the compiled decoder does not run; the compiled decoder elsewhere. */
export function chooseDecoderKind(): DecoderKind {
  if (tensorflow.gpu) return graphDecoderKind();
  try {
    return nativeDecoderKind();
  } catch (error) {
    if (!(error instanceof NoNativeDecoder)) throw error;
    process.stderr.write(`sampling is slower here: ${error.message}\n`);
    return graphDecoderKind();
  }
}
