/** Training sequences on their way to the engine's thread: hunts numbers that change on the way, and copies. */

import { MessageChannel, receiveMessageOnPort } from 'node:worker_threads';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { buffersOf, packData, type PackedData, unpackData } from '../../../trainer/embedded/packed-data.ts';
import type { Datum } from '../../../trainer/update-request.ts';

const number = fc.oneof(fc.double({ noDefaultInfinity: true }), fc.constantFrom(-0, Infinity, -Infinity, Number.NaN));

const anyDatum: fc.Arbitrary<Datum> = fc
  .tuple(
    fc.array(fc.record({ token: fc.nat(), mask: fc.nat({ max: 1 }), logprob: number, temperature: number }), {
      maxLength: 9,
    }),
    fc.constantFrom<Partial<Datum>>({}, { advantage: -1.5 }, { credit: { reward: 1, group: 'g', rollout: 'r' } }),
    fc.boolean(),
  )
  .map(([tokens, rest, heated]) => ({
    tokens: tokens.map(({ token }) => token),
    mask: tokens.map(({ mask }) => mask),
    logprobs: tokens.map(({ logprob }) => logprob),
    ...(heated && { temperatures: tokens.map(({ temperature }) => temperature) }),
    ...rest,
  }));

const one: Datum = { tokens: [1, 2], mask: [0, 1], logprobs: [0, -1] };

describe('packed data', () => {
  test('are the same in another thread', () =>
    fc.assert(
      fc.property(fc.array(anyDatum, { maxLength: 6 }), (data) => {
        const { port1, port2 } = new MessageChannel();
        const packed = packData(data);
        port1.postMessage(packed, buffersOf(packed));
        const { message } = receiveMessageOnPort(port2) as { message: PackedData };
        port1.close();
        expect(unpackData(message)).toStrictEqual(data);
      }),
      { numRuns: 200, seed: 1 },
    ));

  test('are moved: the sender keeps nothing', () => {
    const { port1 } = new MessageChannel();
    const packed = packData([one, { ...one, temperatures: [1, 0.5] }]);
    port1.postMessage(packed, buffersOf(packed));
    port1.close();
    for (const name of ['tokens', 'mask', 'logprobs', 'temperatures'] as const)
      expect(packed[name].byteLength, name).toBe(0);
  });

  test.each<[string, Partial<Datum>, string]>([
    ['an invalid token', { tokens: [1, 1.5] }, 'tokens of a training sequence: 1.5 at 1'],
    ['a token beyond 32 bits', { tokens: [2 ** 31, 1] }, 'tokens of a training sequence: 2147483648 at 0'],
    ['an invalid mask', { mask: [0, -1] }, 'mask of a training sequence: -1 at 1'],
    [
      'lists of different lengths',
      { mask: [1] },
      'training sequence 1 has 2 tokens, but mask, logprobs and temperatures have 1, 2, 2',
    ],
  ])('%s is refused, never changed', (_, wrong, message) => {
    expect(() => packData([one, { ...one, ...wrong }])).toThrow(message);
  });
});
