/** Hunts rollouts that are never checked for being alive, if a round does not fit into one history. */
import { expect, it } from 'vitest';
import { CHUNK } from '../../../workflows/batch/history-budget.ts';
import { Probe } from '../../../workflows/batch/probe.ts';

const all = Array.from({ length: 2 * CHUNK + 50 }, (_, i) => i);

/** A history that is full after some chunks; returns the rollouts that it checked, and those that it leaves. */
async function history(living: readonly number[], unasked: readonly number[], chunks: number) {
  const asked: number[] = [];
  let rounds = 0;
  const probe: Probe = new Probe(
    {
      living: () => living,
      isDone: () => rounds > 1,
      nextRound: async () => ++rounds > 1,
      ask: async (members) => {
        expect(members.length).toBeLessThanOrEqual(CHUNK);
        asked.push(...members);
        if (asked.length >= chunks * CHUNK) probe.rest();
      },
    },
    unasked,
  );
  await probe.run();
  return { asked, rounds, unasked: probe.unasked };
}

it('a round continues in the next history, at once, with those that it did not reach', async () => {
  const first = await history(all, [], 1);
  expect([first.asked, first.rounds]).toEqual([all.slice(0, CHUNK), 1]);
  const left = all.filter((index) => index !== 150);
  const second = await history(left, first.unasked, 100);
  // The rest of that round, without ended rollouts; then its own round.
  expect(second.asked).toEqual([...left.slice(CHUNK), ...left]);
  expect([second.rounds, second.unasked]).toEqual([2, []]);
});

it('no rollout is checked before the first round', async () => {
  expect(await history(all, [], 100)).toMatchObject({ asked: all, rounds: 2 });
});
