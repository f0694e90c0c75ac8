/** How the weight of a KL term goes on from step to step: a pure function of the weight before and of the KL measured. */

export type KlController =
  | { readonly controller: 'fixed' }
  | {
      readonly controller: 'adaptive';
      /** KL that is aimed at; nats a token. */
      readonly target: number;
      /** Sequences over which a full error changes the weight by a factor of e^±0.2, about. */
      readonly horizon: number;
    };

/**
 * weight · (1 + clip(kl / target − 1, ±0.2) · sequences / horizon) (Ziegler et al. 2019, §2.2); a fixed one stays.
 * Errors: a `RangeError` for a horizon that is not above 0, or a controller that there is not.
 */
export function nextKlCoefficient(weight: number, controller: KlController, kl: number, sequences: number): number {
  if (controller.controller === 'fixed') return weight;
  const { controller: name, target, horizon } = controller;
  if (name !== 'adaptive') throw new RangeError(`controller: ${String(name)} cannot be used; give fixed or adaptive`);
  if (!(horizon > 0)) throw new RangeError(`horizon: ${horizon} cannot be used; give a number above 0`);
  const error = Math.min(0.2, Math.max(-0.2, kl / target - 1));
  return weight * (1 + (error * sequences) / horizon);
}
