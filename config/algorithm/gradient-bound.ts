/** The schema of `maxGradNorm`: a norm, or none. */

import { z } from 'zod';

/** `.inf` is what YAML and PyTorch have for no bound; kept as `null`, since JSON has no infinity. */
export const gradientBound = z
  .preprocess((value) => (value === Infinity ? null : value), z.number().positive().nullable())
  .default(1);
