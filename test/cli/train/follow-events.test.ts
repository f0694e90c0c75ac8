/** Hunts followers that read all events of a run at each poll, every second: a run of weeks has millions. */

import { someTasks } from '../../support/some-tasks.ts';
import type { Client } from '@temporalio/client';
import { expect, it } from 'vitest';
import type { RunRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { withLocalStore } from '../../../cli/connect/local-store.ts';
import type { Longhaul } from '../../../client/longhaul.ts';
import { followed } from '../../../cli/verbs/jobs/train.ts';
import type { VerbContext } from '../../../cli/verb.ts';
import type { RolloutEvent, Store } from '../../../store/store.ts';
import type { RunConfig } from '../../../protocol/run-config.ts';
import { RUN, useWorld } from '../../activities/world.ts';

const world = useWorld();
const { signal } = new AbortController();
const temporal = { address: '', namespace: 'default', ui: '' };
const EVENTS = 50;

const dispatched = (n: number): RolloutEvent => ({
  run: RUN,
  rollout: `train/${RUN}/step-1/t/${n}`,
  attempt: 1,
  event: 'dispatched',
  at: new Date(n).toISOString(),
});

async function writeRun(): Promise<void> {
  const { store } = world.now;
  const policy = { base: '/b', parameters: 1, vocabulary: 1 };
  await store.putOnce<RunRecord>(keys.run(RUN), {
    run: RUN,
    runDir: '/r',
    seed: 1,
    startedAt: new Date(0).toISOString(),
    policy,
    task: { name: 't', train: 1, heldOut: 1 },
    tasks: someTasks,
  });
  await store.append(Array.from({ length: EVENTS }, (_, n) => dispatched(n)));
}

/** Counts the events that `store` gives from now on; one more is written at each reading, as in a running run. */
function count(store: Store): { read: number; asked: number } {
  const counts = { read: 0, asked: 0 };
  const [events, changes] = [store.events.bind(store), store.changes.bind(store)];
  const heard = async (given: readonly RolloutEvent[]) => {
    counts.read += given.length;
    await world.now.store.append([dispatched(EVENTS + counts.asked++)]);
  };
  store.events = async (run) => {
    const told = await events(run);
    await heard(told);
    return told;
  };
  store.changes = async (...asked) => {
    const told = await changes(...asked);
    await heard(told?.events ?? []);
    return told;
  };
  return counts;
}

/** A run that ends at the third poll. */
function fakeLonghaul(): Longhaul {
  let looks = 0;
  const describe = async () => ({ status: { name: (looks += 1) < 3 ? 'RUNNING' : 'COMPLETED' } });
  const query = () => Promise.reject(new Error('no worker'));
  return {
    client: {
      workflow: { getHandle: () => ({ describe, query }) },
      withDeadline: (_at: number, work: () => Promise<unknown>) => work(),
    } as unknown as Client,
  } as unknown as Longhaul;
}

it('`train` reads each event of its run once', async () => {
  await writeRun();
  const counts = count(world.now.store);
  const { summary } = await followed(
    { run: RUN, dir: '/r' } as RunConfig,
    fakeLonghaul(),
    world.now.store,
    temporal,
    { line: () => undefined, bar: () => undefined },
    signal,
  );
  // Readers that look at the same time share a reading, so that there may be one less. Each writes an event after it.
  expect(counts.asked).toBeGreaterThanOrEqual(3);
  expect(counts.asked).toBeLessThanOrEqual(5);
  expect(counts.read).toBe(EVENTS + counts.asked - 1);
  expect(summary?.accounting.dispatched).toBe(EVENTS + counts.asked - 1);
});

it('so do the summaries of `watch`', async () => {
  await writeRun();
  const context = { env: { LONGHAUL_HOME: world.now.dir }, cwd: '/', signal } as unknown as VerbContext;
  await withLocalStore(context, async (local) => {
    const counts = count(local.store);
    for (let look = 0; look < 4; look += 1)
      expect((await local.summary(RUN)).accounting.dispatched).toBe(EVENTS + look);
    expect(counts.read).toBe(EVENTS + 3);
  });
});
