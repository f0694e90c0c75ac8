/** Training sequences for another thread: their numbers are in a few flat arrays, which are moved, not copied. */

import type { Datum } from '../update-request.ts';

/** One sequence without its numbers. */
interface Outline extends Pick<Datum, 'advantage' | 'credit'> {
  readonly length: number;
  readonly hasTemperatures: boolean;
}

/** `[tokens of all sequences]` each; for temperatures, only of the sequences that have some. */
interface Numbers {
  readonly tokens: Int32Array;
  readonly mask: Uint8Array;
  readonly logprobs: Float64Array;
  readonly temperatures: Float64Array;
}

export interface PackedData extends Numbers {
  readonly outlines: readonly Outline[];
}

const totalOf = (outlines: readonly Outline[]): number => outlines.reduce((sum, { length }) => sum + length, 0);

/** Copies `values`. Errors: `RangeError` if the array cannot hold one of them exactly. */
function putWhole(to: Int32Array | Uint8Array, at: number, values: readonly number[], name: keyof Numbers): void {
  to.set(values, at);
  for (let i = 0; i < values.length; i++) {
    if (to[at + i] !== values[i])
      throw new RangeError(`${name} of a training sequence: ${values[i]} at ${i} cannot be used`);
  }
}

/** A loop over an array of the right length: `Array.from` takes 20 times as long, and an array that grows 4 times. */
function take(from: Int32Array | Uint8Array | Float64Array, at: number, length: number): number[] {
  const values: number[] = [];
  values.length = length;
  for (let i = 0; i < length; i++) values[i] = from[at + i] as number;
  return values;
}

/** Errors: `RangeError` if a sequence's lists differ in length, or hold a number that cannot be packed. */
export function packData(data: readonly Datum[]): PackedData {
  const outlines = data.map(({ tokens, mask, logprobs, temperatures, advantage, credit }, i): Outline => {
    const { length } = tokens;
    const lengths = [mask.length, logprobs.length, temperatures?.length ?? length];
    if (lengths.some((other) => other !== length))
      throw new RangeError(
        `training sequence ${i} has ${length} tokens, but mask, logprobs and temperatures have ${lengths.join(', ')}`,
      );
    return {
      length,
      hasTemperatures: temperatures !== undefined,
      ...(advantage !== undefined && { advantage }),
      ...(credit && { credit }),
    };
  });
  const total = totalOf(outlines);
  const heated = totalOf(outlines.filter(({ hasTemperatures }) => hasTemperatures));
  const packed = {
    outlines,
    tokens: new Int32Array(total),
    mask: new Uint8Array(total),
    logprobs: new Float64Array(total),
    temperatures: new Float64Array(heated),
  };
  let [at, atHeated] = [0, 0];
  for (const { tokens, mask, logprobs, temperatures } of data) {
    putWhole(packed.tokens, at, tokens, 'tokens');
    putWhole(packed.mask, at, mask, 'mask');
    packed.logprobs.set(logprobs, at);
    packed.temperatures.set(temperatures ?? [], atHeated);
    at += tokens.length;
    atHeated += temperatures?.length ?? 0;
  }
  return packed;
}

/** The buffers that `postMessage` moves with it. */
export const buffersOf = ({ tokens, mask, logprobs, temperatures }: PackedData): ArrayBuffer[] =>
  [tokens, mask, logprobs, temperatures].map(({ buffer }) => buffer as ArrayBuffer);

/** The sequences that were packed. */
export function unpackData({ outlines, tokens, mask, logprobs, temperatures }: PackedData): Datum[] {
  let [at, atHeated] = [0, 0];
  return outlines.map(({ length, hasTemperatures, ...rest }) => {
    const [from, fromHeated] = [at, atHeated];
    at += length;
    if (hasTemperatures) atHeated += length;
    return {
      tokens: take(tokens, from, length),
      mask: take(mask, from, length),
      logprobs: take(logprobs, from, length),
      ...(hasTemperatures && { temperatures: take(temperatures, fromHeated, length) }),
      ...rest,
    };
  });
}
