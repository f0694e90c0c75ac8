/**
 * The blocks of the key-value cache. Why: a block that two sequences write, or that is reused while a sequence reads
 * it, gives wrong tokens without any error. Lost blocks make a worker slower by the hour.
 */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Admitted, BlockCache, type Sequence } from '../../../../trainer/sampler/cache/block-cache.ts';

const size = 4;
const ids = (from: number, count: number): number[] => Array.from({ length: count }, (_, i) => from + i);

function admitted(found: ReturnType<BlockCache['admit']>): Admitted {
  if (typeof found === 'string') throw new Error(`not admitted: ${found}`);
  return found;
}

/** Computes all of a sequence's tokens. */
function compute(cache: BlockCache, sequence: Sequence): void {
  cache.extend(sequence, sequence.tokens.length);
  cache.computed(sequence, sequence.tokens.length);
}

function run(cache: BlockCache, policy: string, tokens: readonly number[]): Admitted {
  const found = admitted(cache.admit(policy, tokens, tokens.length));
  compute(cache, found.sequence);
  cache.release(found.sequence);
  return found;
}

describe('BlockCache', () => {
  it('finds what a rollout computed in its last turn, except the last token', () => {
    const cache = new BlockCache(8, size);
    run(cache, 'p', ids(0, 10));
    const next = admitted(cache.admit('p', [...ids(0, 10), 50, 51], 20));
    expect(next.sequence.cached).toBe(10);
    expect(next.copy).toBeDefined();
    expect(admitted(new BlockCache(8, size).admit('p', ids(0, 10), 20)).sequence.cached).toBe(0);
    cache.release(next.sequence);
    expect(admitted(cache.admit('p', ids(0, 10), 12)).sequence.cached).toBe(9);
  });

  it("does not reuse another policy's blocks, and none for a prompt that is computed afresh", () => {
    const cache = new BlockCache(8, size);
    run(cache, 'version 1', ids(0, 10));
    expect(admitted(cache.admit('version 2', ids(0, 10), 10)).sequence.cached).toBe(0);
    expect(admitted(cache.admit('version 1', ids(0, 10), 10, true)).sequence.cached).toBe(0);
  });

  it("lets members of a group read one another's blocks, and keeps blocks that are read", () => {
    const cache = new BlockCache(8, size);
    const one = admitted(cache.admit('p', ids(0, 9), 12)).sequence;
    expect(cache.admit('p', ids(0, 9), 12)).toBe('soon');
    compute(cache, one);
    const two = admitted(cache.admit('p', ids(0, 9), 12)).sequence;
    expect(two.blocks.slice(0, 2)).toEqual(one.blocks.slice(0, 2));
    expect(two.blocks[2]).not.toBe(one.blocks[2]);
    cache.release(one);
    expect(cache.use()).toMatchObject({ used: 2, total: 8 });
    compute(cache, two);
    cache.release(two);
    expect(cache.use()).toMatchObject({ used: 0 });
  });

  it('keeps one copy of a block that two sequences computed', () => {
    const cache = new BlockCache(8, size);
    const [one, two] = [
      admitted(cache.admit('p', ids(0, 8), 8, true)).sequence,
      admitted(cache.admit('p', ids(0, 8), 8, true)).sequence,
    ];
    compute(cache, one);
    compute(cache, two);
    expect(two.blocks).toEqual(one.blocks);
    expect(cache.use()).toMatchObject({ used: 2, free: 6 });
  });

  it('admits only sequences that are certain to get every block that they may need', () => {
    const cache = new BlockCache(4, size);
    const one = admitted(cache.admit('p', ids(0, 2), 12)).sequence;
    expect(cache.admit('p', ids(50, 2), 8)).toBe('full');
    const two = admitted(cache.admit('p', ids(50, 2), 4)).sequence;
    cache.extend(one, 12);
    cache.extend(two, 4);
    expect(() => cache.extend(two, 5)).toThrow('announced');
    cache.forget(two);
    expect(admitted(cache.admit('p', ids(60, 2), 4)).sequence.promised).toBe(1);
  });

  it('evicts blocks of the earlier policy first, then those idle longest, and a block before the one that it follows', () => {
    const cache = new BlockCache(6, size);
    run(cache, 'new', ids(0, 8));
    run(cache, 'old', ids(100, 8));
    run(cache, 'new', ids(200, 4));
    admitted(cache.admit('new', ids(300, 4), 8));
    const held = (policy: string, tokens: readonly number[]): number => {
      const found = admitted(cache.admit(policy, [...tokens, 999], tokens.length));
      cache.forget(found.sequence);
      return found.sequence.cached;
    };
    // One block was free: of the two that were promised, the second is to come from the old policy.
    const writer = admitted(cache.admit('new', ids(400, 4), 8)).sequence;
    cache.extend(writer, 8);
    expect([held('new', ids(0, 8)), held('new', ids(200, 4))]).toEqual([8, 4]);
  });

  it('frees the blocks of an unloaded policy, and writes the same ones again', () => {
    const cache = new BlockCache(100, size);
    const written = new Set<number>();
    for (let version = 1; version <= 20; version += 1) {
      for (const begin of [0, 100]) {
        const { sequence } = admitted(cache.admit(`version ${version}`, ids(begin, 10), 10));
        compute(cache, sequence);
        for (const block of sequence.blocks) written.add(block);
        cache.release(sequence);
      }
      cache.forgetPolicy(`version ${version - 1}`);
    }
    // Two policies' blocks, of which each has six.
    expect(written.size).toBe(12);
    expect(cache.use()).toMatchObject({ used: 0, idle: 6, free: 94, evicted: 0 });
    expect(admitted(cache.admit('version 19', ids(0, 10), 10)).sequence.cached).toBe(0);
    expect(admitted(cache.admit('version 20', ids(0, 10), 10)).sequence.cached).toBe(9);
  });

  it('reuses nothing that a failed pass may have written', () => {
    const cache = new BlockCache(4, size);
    const { sequence } = admitted(cache.admit('p', ids(0, 10), 10));
    cache.extend(sequence, 10);
    cache.computed(sequence, 6);
    cache.forget(sequence);
    expect(admitted(cache.admit('p', ids(0, 10), 10)).sequence.cached).toBe(4);
  });
});

/** A decoder's contents of each block, as the tokens from the start of the sequence to each position. */
class Memory {
  readonly #held = new Map<number, string[]>();

  write({ blocks, tokens, policy }: Sequence, from: number, to: number): void {
    for (let at = from; at < to; at++) {
      const block = blocks[Math.floor(at / size)] ?? -1;
      const held = this.#held.get(block) ?? [];
      held[at % size] = `${policy}:${tokens.slice(0, at + 1).join()}`;
      this.#held.set(block, held);
    }
  }

  copy(from: number, to: number): void {
    this.#held.set(to, [...(this.#held.get(from) ?? [])]);
  }

  holds({ blocks, tokens, policy, cached }: Sequence): boolean {
    return ids(0, cached).every(
      (at) =>
        this.#held.get(blocks[Math.floor(at / size)] ?? -1)?.[at % size] ===
        `${policy}:${tokens.slice(0, at + 1).join()}`,
    );
  }
}

const request = fc.record({
  policy: fc.constantFrom('v1', 'v2'),
  tokens: fc.array(fc.integer({ min: 0, max: 1 }), { minLength: 1, maxLength: 14 }),
  more: fc.integer({ min: 1, max: 6 }),
  afresh: fc.boolean(),
});
const happenings = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('ask' as const), request }) },
    {
      weight: 6,
      arbitrary: fc.record({
        kind: fc.constant('compute' as const),
        who: fc.nat(),
        count: fc.integer({ min: 1, max: 6 }),
        token: fc.integer({ min: 0, max: 1 }),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constantFrom('release' as const, 'forget' as const),
        who: fc.nat(),
        count: fc.nat({ max: 2 }),
      }),
    },
  ),
  { maxLength: 120 },
);

interface Live {
  readonly sequence: Sequence;
  readonly longest: number;
}

/** Each block that a running sequence writes is in one table. These and the shared blocks are all the used blocks. */
function expectSound(cache: BlockCache, live: readonly Live[]): void {
  const own = live.flatMap(({ sequence }) => sequence.blocks.slice(sequence.shared.length));
  const shared = new Set(live.flatMap(({ sequence }) => sequence.shared.map(({ index }) => index)));
  expect(new Set(own).size).toBe(own.length);
  expect(own.filter((index) => shared.has(index))).toEqual([]);
  const { used, idle, free, total } = cache.use();
  expect({ used, all: used + idle + free }).toEqual({ used: own.length + shared.size, all: total });
  expect(free + idle).toBeGreaterThanOrEqual(live.reduce((sum, { sequence }) => sum + sequence.promised, 0));
}

describe('whatever happens', () => {
  it('a sequence reads only what its own tokens and policy gave, no block has two writers, and no block is lost', () => {
    fc.assert(
      fc.property(fc.integer({ min: 5, max: 12 }), happenings, (blocks, events) => {
        const [cache, memory] = [new BlockCache(blocks, size), new Memory()];
        let live: Live[] = [];
        for (const event of events) {
          if (event.kind === 'ask') {
            const { policy, tokens, more, afresh } = event.request;
            const found = cache.admit(policy, tokens, tokens.length + more, afresh);
            if (typeof found !== 'string') {
              if (found.copy !== undefined) memory.copy(found.copy.from, found.copy.to);
              live.push({ sequence: found.sequence, longest: tokens.length + more });
            }
          } else {
            const one = live[event.who % Math.max(1, live.length)];
            if (one === undefined) continue;
            const { sequence, longest } = one;
            if (event.kind === 'compute') {
              const until = Math.min(sequence.tokens.length, sequence.cached + event.count);
              cache.extend(sequence, until);
              memory.write(sequence, sequence.cached, until);
              cache.computed(sequence, until);
              if (until === sequence.tokens.length && until < longest) sequence.tokens.push(event.token);
            } else {
              live = live.filter((other) => other !== one);
              cache[event.kind](sequence);
              // As the sampler does where a version is unloaded.
              if (event.count === 0 && live.every((other) => other.sequence.policy !== sequence.policy))
                cache.forgetPolicy(sequence.policy);
            }
          }
          for (const { sequence } of live) expect(memory.holds(sequence)).toBe(true);
          expectSound(cache, live);
        }
        for (const { sequence } of live) cache.release(sequence);
        expect(cache.use().used).toBe(0);
        // One sequence can still get all blocks.
        expect(typeof cache.admit('v3', [7], blocks * size)).toBe('object');
      }),
      { numRuns: 300 },
    );
  });

  it('every request is served if the first in the queue is served first', () => {
    fc.assert(
      fc.property(fc.integer({ min: 5, max: 9 }), fc.array(request, { maxLength: 25 }), (blocks, requests) => {
        const cache = new BlockCache(blocks, size);
        const queue = [...requests];
        const live: Live[] = [];
        let steps = 0;
        while (queue.length > 0 || live.length > 0) {
          for (const one of queue.slice()) {
            const found = cache.admit(one.policy, one.tokens, one.tokens.length + one.more, one.afresh);
            if (found === 'full') break;
            if (found === 'soon') continue;
            queue.splice(queue.indexOf(one), 1);
            live.push({ sequence: found.sequence, longest: one.tokens.length + one.more });
          }
          for (const one of live.slice()) {
            compute(cache, one.sequence);
            if (one.sequence.tokens.length < one.longest) one.sequence.tokens.push(steps % 2);
            else cache.release(live.splice(live.indexOf(one), 1)[0]?.sequence ?? one.sequence);
          }
          steps += 1;
          expect(steps).toBeLessThan(10 * (requests.length + 2));
        }
      }),
      { numRuns: 200 },
    );
  });
});
