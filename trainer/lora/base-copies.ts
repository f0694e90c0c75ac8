/**
 * Tensors of the base that an adapter's file holds once more: PEFT writes them for a head that has an adapter. They stand
 * in the base's place there, so that a copy is left out here only where it says the same.
 */

import { WrongWeights } from '../model/parameters.ts';
import type { NamedTensor } from '../model/safetensors.ts';
import type { NamedPiece, WeightPieces } from '../model/weights.ts';
import { adapterName } from './adapter-layout.ts';

const COPY = '.base_layer.weight';

export interface WithoutCopies {
  readonly tensors: ReadonlyMap<string, NamedTensor>;
  /** By the base's names. */
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
    `is another ${name} than the base's: merge the adapter into the base that it was made with`,
  );
}

/** The base's weights as they pass by. Errors, then: `WrongWeights` where a copy is another one, or of no tensor of the base. */
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
  for (const name of unseen) throw new WrongWeights(copyName(name), 'is of no tensor of the base');
}
