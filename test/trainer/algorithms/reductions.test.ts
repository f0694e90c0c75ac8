/** Loss reductions, normalisation of advantages and the critic's loss against SkyRL's own functions. */

import { criticLoss } from '../../../trainer/algorithms/critic-loss.ts';
import { type NormalisedCase, normalised, type ReductionCase, reduced } from './reduced.ts';
import { close, closeAll, eachCase, flat, lengthsOf, mustFail, type Named, type Table } from './vectors.ts';

interface ReductionVector extends ReductionCase, Named {
  readonly advantages: Table;
  readonly loss_mask: Table;
  readonly expected: Table;
}

eachCase<ReductionVector>('loss_reductions', (given, where) => {
  const run = () => reduced(given, given.advantages, given.loss_mask);
  if (!mustFail(where, given.expected, run)) closeAll(where, run(), flat(given.expected));
});

interface NormalisedVector extends NormalisedCase, Named {
  readonly advantages: Table;
  readonly response_mask: Table;
  readonly loss_mask: Table;
  readonly expected: Table;
}

eachCase<NormalisedVector>('advantage_normalization', (given, where) => {
  closeAll(where, normalised(given, given.advantages, given.response_mask, given.loss_mask), flat(given.expected));
});

interface CriticVector extends Named {
  readonly values: Table;
  readonly old_values: Table;
  readonly returns: Table;
  readonly loss_mask: Table;
  readonly value_clip: number | null;
  readonly expected: { readonly loss: number; readonly clipfrac: number | null; readonly grad_values: Table };
}

eachCase<CriticVector>('critic_loss', (given, where) => {
  const tokens = {
    starts: lengthsOf(given.loss_mask),
    mask: flat(given.loss_mask),
    values: flat(given.values),
    old: flat(given.old_values),
    returns: flat(given.returns),
  };
  const got = criticLoss(tokens, given.value_clip ?? Infinity);
  close(`${where} loss`, got.loss, given.expected.loss);
  if (given.expected.clipfrac !== null) close(`${where} clipfrac`, got.clipFraction, given.expected.clipfrac);
  closeAll(`${where} gradient`, got.gradient, flat(given.expected.grad_values));
});
