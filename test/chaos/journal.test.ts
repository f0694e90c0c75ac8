/** Hunts kills that count as busy and hit nothing: work in flight has started and has no result. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { keys } from '../../protocol/record-keys.ts';
import { Journal } from '../../chaos/journal.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import type { Store } from '../../store/store.ts';

let dir: string;
let store: Store;
let journal: Journal;
const attempt = { run: 'r', rollout: 'train/r/step-1/swe-mini-train-3/0', attempt: 1, task: 'swe-mini-train-3' };
const id = `${attempt.rollout}#1`;
const underWay = async () => (await journal.underWay()).map(({ key }) => key);

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-journal-'));
  store = openSqliteStore(dir);
  journal = new Journal(store, 'r');
});
afterEach(async () => {
  await store.close();
  rmSync(dir, { recursive: true });
});

it.each([
  [`model:${keys.generate(attempt, 2)}`, keys.generate(attempt, 2)],
  [`tool:${id}/12/3`, keys.answer(attempt, 12, 3)],
  [keys.collect(attempt), keys.collect(attempt)],
  [`reward:${id}`, keys.verdict(attempt)],
  ['update:r/00001', keys.update('r', 1)],
])('%s is under way until %s is on record', async (execution, result) => {
  await store.begin(execution);
  expect(await underWay()).toEqual([execution]);
  await store.begin(execution);
  expect(await underWay()).toEqual([execution]);
  await store.putOnce(result, {});
  expect(await underWay()).toEqual([]);
  expect((await journal.all()).map(({ key }) => key)).toEqual([execution, execution]);
});

it('a sandbox is being made until something begins in it', async () => {
  await store.begin(`init:${id}`);
  expect(await underWay()).toEqual([`init:${id}`]);
  await store.begin(`model:${keys.generate(attempt, 1)}`);
  expect(await underWay()).toEqual([`model:${keys.generate(attempt, 1)}`]);
});

it('what an attempt left open is over when the next one begins, or when the rollout has ended', async () => {
  await store.begin(`tool:${id}/1/0`);
  await store.begin(`init:${attempt.rollout}#2`);
  expect(await underWay()).toEqual([`init:${attempt.rollout}#2`]);
  await store.putOnce(keys.outcome(attempt.rollout), {});
  expect(await underWay()).toEqual([]);
});

it('what was under way at any moment is told, and what was on record before is not', async () => {
  const [early, long, late] = [1, 2, 3].map((turn) => keys.generate(attempt, turn)) as [string, string, string];
  await store.begin(`model:${early}`);
  await store.putOnce(early, {});
  await store.begin(`model:${long}`);
  let end: () => void = () => undefined;
  const seen = journal.underWayUntil(new Promise<void>((resolve) => (end = resolve)));
  await expect.poll(underWay).toEqual([`model:${long}`]);
  await store.putOnce(long, {});
  await store.begin(`model:${late}`);
  end();
  expect((await seen).map(({ key }) => key)).toEqual([`model:${long}`, `model:${late}`]);
});

it('is read once, whoever asks at the same moment', async () => {
  await store.begin(`model:${keys.generate(attempt, 1)}`);
  await Promise.all([journal.all(), journal.all(), journal.underWay()]);
  expect((await journal.all()).length).toBe(1);
});
