/**
 * Hunts children that receive an old signal last, signals out of order, and a burst of signals that Temporal would
 * refuse.
 */
import fc from 'fast-check';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { PauseRelay } from '../../workflows/pause-relay.ts';

interface Child {
  readonly words: string[];
  signal(word: 'pause' | 'resume'): Promise<void>;
}

function nursery(answer: (id: number) => Promise<void>) {
  const counts = { now: 0, peak: 0 };
  const child = (id: number): Child => {
    const words: string[] = [];
    return {
      words,
      async signal(word) {
        counts.now += 1;
        counts.peak = Math.max(counts.peak, counts.now);
        words.push(word);
        try {
          await answer(id);
        } finally {
          counts.now -= 1;
        }
      },
    };
  };
  return { counts, child };
}
const settled = () => sleep(20);

it('2,000 children receive a pause and its end, a hundred at a time', async () => {
  const { counts, child } = nursery(async () => undefined);
  const relay = new PauseRelay();
  const children = Array.from({ length: 2000 }, (_, i) => child(i));
  for (const [i, one] of children.entries()) relay.add(String(i), one);
  relay.set(true);
  await settled();
  expect(new Set(children.map(({ words }) => words.join()))).toEqual(new Set(['pause']));
  relay.set(false);
  await settled();
  expect(new Set(children.map(({ words }) => words.join()))).toEqual(new Set(['pause,resume']));
  expect(counts.peak).toBe(100);
});

it('a run that is never paused sends nothing', async () => {
  const { child } = nursery(async () => undefined);
  const relay = new PauseRelay();
  const one = child(0);
  relay.add('0', one);
  relay.set(false);
  await settled();
  expect(one.words).toEqual([]);
});

it('a child that starts during a pause receives it; one that has ended delays no other', async () => {
  const { child } = nursery(async (id) => {
    if (id === 0) throw new Error('has ended');
  });
  const relay = new PauseRelay();
  const [gone, late] = [child(0), child(1)];
  relay.add('0', gone);
  relay.set(true);
  relay.add('1', late);
  await settled();
  expect(late.words).toEqual(['pause']);
});

it('for any requests and any delays, each child receives the newest signal last and no signal twice', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.boolean(), { maxLength: 12 }),
      fc.array(fc.nat(3), { minLength: 1, maxLength: 5 }),
      async (asked, delays) => {
        const { child } = nursery((id) => sleep(delays[id] ?? 0));
        const relay = new PauseRelay();
        const children = delays.map((_, i) => child(i));
        for (const [i, one] of children.entries()) relay.add(String(i), one);
        for (const [i, paused] of asked.entries()) {
          relay.set(paused);
          if (i % 2 === 0) await sleep(i % 3);
        }
        await settled();
        for (const { words } of children) {
          expect(words.every((word, i) => word !== words[i - 1])).toBe(true);
          expect(words[0] ?? 'pause').toBe('pause');
          expect(words.at(-1) ?? 'resume').toBe(asked.at(-1) === true ? 'pause' : 'resume');
        }
      },
    ),
    { numRuns: 30 },
  );
});

it('a history that ends sends no more signals, and the next one signals the remaining children', async () => {
  const ended = Promise.withResolvers<void>();
  const { child } = nursery(() => ended.promise);
  const before = new PauseRelay();
  const children = Array.from({ length: 250 }, (_, i) => child(i));
  for (const [i, one] of children.entries()) before.add(String(i), one);
  before.set(true);
  before.rest();
  expect(before.isSettled).toBe(false);
  ended.resolve();
  await settled();
  expect(before.isSettled).toBe(true);
  const untold = new Set(before.unsignalled);
  expect(untold.size).toBe(150);
  const after = new PauseRelay(true);
  for (const [i, one] of children.entries()) after.adopt(String(i), one, untold.has(String(i)));
  after.set(true);
  await settled();
  expect(children.map(({ words }) => words.join())).toEqual(Array(250).fill('pause'));
  expect(after.unsignalled).toEqual([]);
});

it('a child that is held is resumed, though it received no pause, and receives none', async () => {
  const { child } = nursery(async () => undefined);
  const relay = new PauseRelay();
  const [stands, other] = [child(0), child(1)];
  relay.add('stands', stands);
  relay.add('other', other);
  relay.markHeld('stands');
  relay.set(true);
  await settled();
  relay.set(false);
  await settled();
  expect([stands.words, other.words]).toEqual([['resume'], ['pause', 'resume']]);
});

it('a report of a held child is outdated if a resume is on its way to it, and no other report is', async () => {
  const { child } = nursery(async () => undefined);
  const relay = new PauseRelay();
  relay.add('0', child(0));
  for (const paused of [true, false, true, false]) {
    relay.set(paused);
    await settled();
  }
  expect([0, 1, 2, 3].map((received) => relay.isResumed('0', received))).toEqual([true, true, false, false]);
  // It is unknown; it was started anew; it has run since before.
  expect(relay.isResumed('1', 0)).toBe(false);
  relay.add('0', child(0));
  expect(relay.isResumed('0', 0)).toBe(false);
});

it.each([
  [false, 'resume'],
  [true, 'pause'],
] as const)(
  'a child from before receives the newest signal, whatever it received then (paused: %s)',
  async (paused, word) => {
    const { child } = nursery(async () => undefined);
    const relay = new PauseRelay();
    relay.set(paused);
    const since = child(0);
    relay.rejoin('since', since);
    await settled();
    expect(since.words).toEqual([word]);
    relay.set(paused);
    await settled();
    expect(since.words).toEqual([word]);
  },
);
