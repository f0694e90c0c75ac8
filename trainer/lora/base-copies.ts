/**
 * Copies of base tensors in an adapter's file: PEFT writes them for a head that has an adapter. PEFT uses such a copy
 * instead of the base's tensor; here a copy is dropped, so it must equal the base's tensor.
 */

import { WrongWeights } from '../model/parameters.ts';
import type { NamedTensor } from '../model/safetensors.ts';
import type { NamedPiece, WeightPieces } from '../model/weights.ts';
import { adapterName } from './adapter-layout.ts';

const COPY = '.base_layer.weight';

export interface WithoutCopies {
  readonly tensors: ReadonlyMap<string, NamedTensor>;
  /** By their names in the base. */
  readonly copies: ReadonlyMap<string, NamedTensor>;
}

export function withoutBaseCopies(tensors: ReadonlyMap<string, NamedTensor>): WithoutCopies {
  const isCopy = (name: string): boolean => name.startsWith(adapterName('')) && name.endsWith(COPY);
  const baseName = (name: string): string => `${name.slice(adapterName('').length, -COPY.length)}.weight`;
  return {
    tensors: new Map([...tensors].filter(([name]) => !isCopy(name))),
    copies: new Map(
      [...tensors].flatMap(([name, tensor]) => (isCopy(name) ? [[baseName(name), tensor] as const] : [])),
    ),
  };
}

const copyName = (tensor: string): string => adapterName(tensor.replace(/\.weight$/, COPY));

function checkPiece([name, { shape, data, from = 0 }]: NamedPiece, copy: NamedTensor): void {
  if (shape.join() === copy.shape.join() && data.every((value, i) => value === copy.data[from + i])) return;
  throw new WrongWeights(
    copyName(name),
    `differs from the base's ${name}: merge the adapter into the base that it was trained on`,
  );
}

/** Yields the base's weights. Errors: `WrongWeights` if a copy differs from the base's tensor, or the base has none. */
export async function* checkedAgainst(
  weights: WeightPieces,
  copies: ReadonlyMap<string, NamedTensor>,
): AsyncGenerator<NamedPiece> {
  const unseen = new Set(copies.keys());
  for await (const piece of weights) {
    const copy = copies.get(piece[0]);
    if (copy !== undefined) checkPiece(piece, copy);
    unseen.delete(piece[0]);
    yield piece;
  }
  for (const name of unseen) throw new WrongWeights(copyName(name), 'is the copy of a tensor that the base lacks');
}
