/** The weights of a policy with its adapter merged, read piece by piece. */

import { openVerifiedPolicy } from '../checkpoints/verified-checkpoint.ts';
import type { ModelConfig } from '../model/config.ts';
import { layoutOf } from '../model/parameters.ts';
import { addPiece } from '../model/safetensors.ts';
import type { NamedPiece, WeightPieces, Weights } from '../model/weights.ts';
import { Adapter } from './adapter.ts';
import { moduleOf } from './adapter-config.ts';
import type { AdapterWeights } from './adapter-layout.ts';

/**
 * The weights that the policy computes with, with the same bits as in training. Errors, some of them while the weights
 * are read: those of `openVerifiedPolicy`, `WrongWeights`.
 */
export async function mergedWeights(dir: string, config: ModelConfig): Promise<WeightPieces> {
  const { weights, adapter } = await openVerifiedPolicy(dir);
  return adapter === undefined ? weights : merged(weights, adapter, config);
}

/**
 * A module with an adapter is collected whole in memory, to add the adapter. Errors: `UnsupportedAdapter`,
 * `WrongWeights`.
 */
export async function* merged(
  weights: WeightPieces,
  given: AdapterWeights,
  config: ModelConfig,
): AsyncGenerator<NamedPiece> {
  const adapter = new Adapter(layoutOf(config), given, () => undefined);
  const whole: Weights = new Map();
  try {
    for await (const [name, piece] of weights) {
      const module = adapter.modules.get(moduleOf(name));
      if (module === undefined) {
        yield [name, piece];
        continue;
      }
      addPiece(whole, name, piece);
      const { shape, data } = piece;
      const known = whole.get(name);
      if (known === undefined || (piece.from ?? 0) + data.length < known.data.length) continue;
      whole.delete(name);
      yield [name, { shape, data: adapter.added(module.module, known) }];
    }
  } finally {
    adapter.dispose();
  }
}
