/**
 * Hunts a read model that differs from the store: one that misses a change, counts one twice, depends on when it was
 * brought up to date, or keeps what a restored store no longer has. And one that fails its reader.
 */
import { fork } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { rolloutsQuery } from '../../../reports/read-model/queries.ts';
import { ReadModel } from '../../../reports/read-model/read-model.ts';
import { openStore, sqliteUrl } from '../../../store/open-store.ts';
import type { Store } from '../../../store/store.ts';
import { type Deed, deed, FAILURES, perform, RUNS } from './histories.ts';
import { scan, tallyOf } from './scan.ts';

const follower = fileURLToPath(new URL('fixtures/follower.ts', import.meta.url));

let dir: string;
let store: Store;
let file: string;
let models: ReadModel[];
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-read-model-'));
  store = await openStore(sqliteUrl(join(dir, 'store')));
  file = join(dir, 'read-model.sqlite');
  models = [];
});
afterEach(async () => {
  for (const model of models) model.close();
  await store.close();
  chmodSync(dir, 0o700);
  rmSync(dir, { recursive: true });
});

function open(at: string | undefined, page?: number, of = store): ReadModel {
  const model = new ReadModel(of, at, page);
  models.push(model);
  return model;
}

/** Everything that a model answers, in the form of `scan`. */
async function answers(model: ReadModel) {
  const rollouts = await model.rollouts({});
  const ids = new Set(rollouts.map(({ rollout }) => rollout));
  for (const { key } of [...(await store.list('generate:')), ...(await store.list('answer:'))])
    ids.add(key.slice(key.indexOf(':') + 1, key.lastIndexOf('#')));
  for (const { key } of await store.executions(0)) ids.add(key.slice(key.lastIndexOf(':') + 1, key.lastIndexOf('#')));
  const calls = (await Promise.all([...ids].map((id) => model.calls(id)))).flat().map((one) => {
    const place = `${one.rollout}#${one.attempt}/0000${one.turn}`;
    const key = one.kind === 'model' ? `generate:${place}` : `answer:${place}/${one.place}`;
    return [key, { started: one.started, starts: one.starts, isEnded: one.ended !== null }] as const;
  });
  return {
    runs: (await model.runs()).map((row) => ({ ...row })),
    rollouts,
    calls: Object.fromEntries(calls.toSorted(([a], [b]) => (a < b ? -1 : 1))),
    tallies: await Promise.all(RUNS.map((run) => tallyOf(run, model))),
  };
}

const look = fc.record({ do: fc.constantFrom('look' as const, 'other' as const, 'restart' as const) });

describe('a read model', () => {
  it(
    'answers as a scan of the store does, whenever it was brought up to date, and by whom',
    { timeout: 120_000 },
    async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.oneof({ weight: 5, arbitrary: deed }, look), { maxLength: 60 }),
          fc.integer({ min: 1, max: 5 }),
          async (deeds, page) => {
            const at = mkdtempSync(join(dir, 'one-'));
            const own = await openStore(sqliteUrl(join(at, 'store')));
            const before = store;
            store = own;
            try {
              const path = join(at, 'read-model.sqlite');
              let [one, other] = [open(path, page), open(path, page + 1)];
              for (const step of deeds) {
                if (step.do === 'look') await one.refresh();
                else if (step.do === 'other') await other.refresh();
                else if (step.do === 'restart') {
                  one.close();
                  one = open(path, page);
                } else await perform(step as Deed, own);
              }
              const expected = await scan(own);
              await Promise.all([one.refresh(), other.refresh()]);
              expect(await answers(one)).toEqual(expected);
              expect(await answers(other)).toEqual(expected);
              expect(await answers(open(undefined))).toEqual(expected);
            } finally {
              for (const model of models) model.close();
              await own.close();
              store = before;
            }
          },
        ),
        { numRuns: 40 },
      );
    },
  );

  it('counts everything once that several processes write and follow at once', { timeout: 120_000 }, async () => {
    const url = sqliteUrl(join(dir, 'store'));
    const ended = RUNS.slice(0, 2).map((run) => {
      const child = fork(follower, [url, file, run]);
      return new Promise((resolve) => child.once('exit', resolve));
    });
    expect(await Promise.all(ended)).toEqual([0, 0]);
    const expected = await scan(store);
    expect(expected.tallies.slice(0, 2).map(({ over }) => [over.dispatched, over.trained])).toEqual([
      [40, 40],
      [40, 40],
    ]);
    expect(await answers(open(file))).toEqual(expected);
  });

  it('finds the same rollouts by any filter as a scan does, and by an index', async () => {
    for (const one of fc.sample(deed, { numRuns: 400, seed: 7 })) await perform(one, store);
    const model = open(file);
    const { rollouts } = await scan(store);
    const filters = [
      { rollout: rollouts[0]!.rollout },
      { run: 'a' },
      { run: 'b', step: rollouts.find(({ run, step }) => run === 'b' && step !== null)!.step! },
      { step: 2 },
      { task: 'my-own-train-0' },
      { source: 'other' },
      { status: 'running' },
      ...FAILURES.map((failure) => ({ failure })),
      { minReward: 0.5 },
      { maxReward: 0.5 },
      { since: rollouts.flatMap(({ firstAt }) => firstAt ?? []).toSorted()[4]! },
      { prefix: 'train/a/step' },
      { run: 'a', batches: ['step-1', 'group-7'] },
    ] as const;
    const matches = (row: (typeof rollouts)[number], filter: Record<string, unknown>) =>
      Object.entries(filter).every(([name, value]) => {
        if (name === 'prefix') return row.rollout.startsWith(String(value));
        if (name === 'minReward') return row.reward !== null && row.reward >= Number(value);
        if (name === 'maxReward') return row.reward !== null && row.reward <= Number(value);
        if (name === 'since') return row.firstAt !== null && row.firstAt >= String(value);
        if (name === 'batches') return (value as string[]).includes(row.batch);
        return row[name as 'run'] === value;
      });
    for (const filter of filters) {
      const found = await model.rollouts(filter);
      expect(found).toEqual(rollouts.filter((row) => matches(row, filter)));
      expect(found.length).toBeGreaterThan(0);
    }
    const db = new DatabaseSync(file);
    for (const filter of filters) {
      const { sql, values } = rolloutsQuery(filter);
      const plan = db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...values);
      expect([filter, String(plan[0]!['detail'])]).toEqual([filter, expect.stringMatching(/^SEARCH rollouts USING/)]);
    }
    db.close();
  });

  it('has the start and the end of each call, and none of those that were pruned', async () => {
    const before = new Date().toISOString();
    await store.begin('model:generate:train/a/step-1/t-train-0/0#1/00001');
    await store.begin('model:generate:train/a/step-1/t-train-0/0#1/00001');
    await store.putOnce('generate:train/a/step-1/t-train-0/0#1/00001', {});
    await store.begin('tool:train/a/step-1/t-train-0/0#1/1/0');
    await store.begin('reward:train/a/step-1/t-train-0/0#1');
    const model = open(file);
    const calls = await model.calls('train/a/step-1/t-train-0/0');
    expect(calls).toMatchObject([
      { kind: 'model', attempt: 1, turn: 1, place: 0, starts: 2 },
      { kind: 'tool', attempt: 1, turn: 1, place: 0, starts: 1, ended: null },
    ]);
    const times = [before, calls[0]!.started!, calls[0]!.ended!, new Date().toISOString()];
    expect(times.toSorted()).toEqual(times);
    await new Promise((resolve) => setTimeout(resolve, 2));
    await store.putOnce('pruned:a', {});
    expect(await model.calls('train/a/step-1/t-train-0/0')).toEqual([]);
  });
});

describe('a read model never fails its reader', () => {
  beforeEach(async () => {
    for (const one of fc.sample(deed, { numRuns: 60, seed: 3 })) await perform(one, store);
    const model = open(file);
    await model.refresh();
    model.close();
  });

  it.each([
    ['is missing', () => rmSync(file)],
    ['is cut short', () => truncateSync(file, 5_000)],
    ['is no database', () => writeFileSync(file, 'not a database, but something else of some length'.repeat(200))],
    [
      'is of another version',
      () => {
        const raw = new DatabaseSync(file);
        raw.exec('DROP TABLE rollouts; PRAGMA user_version=99');
        raw.close();
      },
    ],
    [
      'is a folder',
      () => {
        rmSync(file);
        mkdirSync(file);
      },
    ],
  ])('if its file %s', async (_what, harm) => {
    harm();
    expect(await answers(open(file))).toEqual(await scan(store));
  });

  it('if its file is damaged while it is open', async () => {
    const model = open(file);
    await model.refresh();
    const raw = new DatabaseSync(file);
    raw.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    raw.close();
    writeFileSync(file, Buffer.alloc(400_000, 7));
    for (const one of fc.sample(deed, { numRuns: 20, seed: 4 })) await perform(one, store);
    expect(await answers(model)).toEqual(await scan(store));
  });

  it('if the place of its file cannot be made', async () => {
    writeFileSync(join(dir, 'taken'), '');
    expect(await answers(open(join(dir, 'taken', 'read-model.sqlite')))).toEqual(await scan(store));
    expect(existsSync(join(dir, 'taken', 'read-model.sqlite'))).toBe(false);
  });
});

describe('a read model of a damaged store', () => {
  const event = {
    run: 'a',
    rollout: 'train/a/step-1/t-train-0/0',
    attempt: 1,
    at: '2026-01-01T00:00:00.000Z',
  } as const;
  const change = (sql: string) => {
    const raw = new DatabaseSync(join(dir, 'store', 'store.sqlite'));
    raw.exec(sql);
    raw.close();
  };

  it('reports no number of the run whose rows are damaged, other runs as ever, and all after the repair', async () => {
    await store.append([{ ...event, event: 'dispatched' }]);
    await store.append([{ ...event, run: 'b', rollout: 'train/b/step-1/t-train-0/0', event: 'dispatched' }]);
    change("UPDATE events SET at = '2026-01-02T00:00:00.000Z' WHERE run = 'a'");
    const model = open(file);
    await expect(model.of('a')).rejects.toMatchObject({ name: 'StoreCorrupt', key: `${event.rollout}#1 dispatched` });
    await expect(model.rollouts({ run: 'a' })).rejects.toMatchObject({ name: 'StoreCorrupt' });
    expect((await model.of('b')).account.totals(false).dispatched).toBe(1);
    change("UPDATE events SET at = '2026-01-01T00:00:00.000Z' WHERE run = 'a'");
    model.close();
    expect((await open(file).of('a')).account.totals(false).dispatched).toBe(1);
  });

  it('starts again when an earlier copy of the store is restored', async () => {
    await store.append([{ ...event, event: 'dispatched' }]);
    const model = open(file);
    expect((await model.of('a')).account.totals(false).dispatched).toBe(1);
    await store.close();
    rmSync(join(dir, 'store'), { recursive: true });
    store = await openStore(sqliteUrl(join(dir, 'store')));
    await store.append([{ ...event, run: 'b', rollout: 'train/b/step-1/t-train-0/0', event: 'dispatched' }]);
    const later = open(file);
    expect((await later.of('a')).account.totals(false).dispatched).toBe(0);
    expect(await answers(later)).toEqual(await scan(store));
  });
});
