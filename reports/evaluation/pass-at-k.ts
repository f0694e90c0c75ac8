/** The unbiased estimator of pass@k: the chance that at least one of k samples of a task passes. */

/**
 * 1 − C(n−c, k) / C(n, k), of Chen et al. 2021 ("Evaluating Large Language Models Trained on Code", equation 1), as a
 * product, so that no binomial overflows: `passed` of `samples` passed. The fraction of passes ^ k would be biased.
 * Errors: `RangeError` unless 1 ≤ k ≤ samples and 0 ≤ passed ≤ samples.
 */
export function passAtK(samples: number, passed: number, k: number): number {
  if (!(k >= 1 && k <= samples && passed >= 0 && passed <= samples)) {
    throw new RangeError(`pass@${k} cannot be told from ${passed} passes of ${samples} samples`);
  }
  if (samples - passed < k) return 1;
  let noneOfThem = 1;
  for (let i = samples - passed + 1; i <= samples; i += 1) noneOfThem *= 1 - k / i;
  return 1 - noneOfThem;
}
