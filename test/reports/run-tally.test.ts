/** Hunts summaries that count an event twice or never, and reading that grows with the square of a run's length. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { RunTallies, RunTally } from '../../reports/run-tally.ts';
import type { RolloutEvent, Store } from '../../store/store.ts';
import { RUN, useWorld } from '../activities/world.ts';

const world = useWorld();
const at = (second: number) => new Date(1_767_225_600_000 + second * 1000).toISOString();
const event = (n: number, name: RolloutEvent['event'], run = RUN): RolloutEvent => ({
  run,
  rollout: `train/${run}/step-${n % 3}/t/${n}`,
  attempt: 1,
  event: name,
  at: at(n),
});

/** The tally of all events at once. */
async function tallyOf(run: string, store: Store): Promise<RunTally> {
  const tally = new RunTally();
  for (const one of await store.events(run)) tally.add(one);
  return tally;
}

/** The store, and the number of events that were read from it. */
function counted(store: Store) {
  const read = { events: 0 };
  const counting = new Proxy(store, {
    get(target, name) {
      const real = Reflect.get(target, name) as (...given: unknown[]) => Promise<unknown>;
      if (name !== 'eventsSince') return real.bind(target);
      return async (...given: unknown[]) => {
        const told = (await real.apply(target, given)) as Awaited<ReturnType<Store['eventsSince']>>;
        read.events += told.events.length;
        return told;
      };
    },
  });
  return { counting, read };
}

it('equals the tally of all events, however often it is requested meanwhile, and reads each event once', async () => {
  const names = fc.constantFrom<RolloutEvent['event']>(
    'dispatched',
    'started',
    'trained',
    'masked',
    'dropped',
    'evaluated',
    'end-refused',
  );
  const chunks = fc.array(fc.array(fc.tuple(fc.nat(6), names), { maxLength: 6 }), { minLength: 1, maxLength: 6 });
  let serial = 0;
  await fc.assert(
    fc.asyncProperty(chunks, fc.boolean(), async (written, over) => {
      const run = `p${serial++}`;
      const { counting, read } = counted(world.now.store);
      const tallies = new RunTallies(counting);
      for (const chunk of written) {
        await world.now.store.append(chunk.map(([n, name]) => event(n, name, run)));
        await Promise.all([tallies.of(run), tallies.of(run)]);
      }
      const events = await world.now.store.events(run);
      expect((await tallies.of(run)).account.totals(over)).toEqual(
        (await tallyOf(run, world.now.store)).account.totals(over),
      );
      expect(read.events).toBe(events.length);
    }),
    { numRuns: 30 },
  );
});

it('returns when the last rollout of each batch ended, also for a run that was evicted meanwhile', async () => {
  await world.now.store.append([event(1, 'trained'), event(4, 'masked'), event(7, 'turn'), event(2, 'evaluated')]);
  const tallies = new RunTallies(world.now.store);
  const ends = async () =>
    [...(await tallies.of(RUN)).batchEnds].map(([batch, end]) => [batch, new Date(end * 1000).toISOString()]);
  expect(await ends()).toEqual([
    ['step-1', at(4)],
    ['step-2', at(2)],
  ]);
  for (let i = 0; i < 20; i += 1) await tallies.of(`other-${i}`);
  await world.now.store.append([event(10, 'dropped')]);
  expect(await ends()).toEqual([
    ['step-1', at(10)],
    ['step-2', at(2)],
  ]);
});

it('continues after a failed read', async () => {
  await world.now.store.append([event(1, 'dispatched'), event(2, 'dispatched')]);
  let broken = true;
  const failing = new Proxy(world.now.store, {
    get: (target, name) => {
      const real = Reflect.get(target, name) as (...given: unknown[]) => Promise<unknown>;
      return (...given: unknown[]) =>
        name === 'eventsSince' && broken ? Promise.reject(new Error('the disk is full')) : real.apply(target, given);
    },
  });
  const tallies = new RunTallies(failing);
  await expect(tallies.of(RUN)).rejects.toThrow('the disk is full');
  broken = false;
  expect((await tallies.of(RUN)).account.totals(false)).toMatchObject({ dispatched: 2 });
});
