/** Reads all records of one kind of a batch, a run or an attempt. */

import { StoreCorrupt } from './disk-errors.ts';
import type { Store } from './store.ts';
import type { ActRecord, BatchManifest, GenerateRecord } from '../protocol/records.ts';
import { attemptKey, keys, padded } from '../protocol/record-keys.ts';
import type { Attempt, ObjectRef } from '../protocol/stages.ts';
import type { TaskCatalog } from '../protocol/task-key.ts';
import type { ConfigChange } from '../protocol/run-config.ts';

/** Stores a catalog. The same catalog has the same name. */
export function putCatalog(catalog: TaskCatalog, store: Store): Promise<ObjectRef> {
  return store.putObject(Buffer.from(JSON.stringify(catalog)));
}

/** Errors: those of `getObject`. */
export async function readCatalog(ref: ObjectRef, store: Pick<Store, 'getObject'>): Promise<TaskCatalog> {
  return JSON.parse(Buffer.from(await store.getObject(ref)).toString()) as TaskCatalog;
}

/** The settings that were changed on the live run, oldest first. */
export async function changesOfRun(store: Store, run: string): Promise<ConfigChange[]> {
  return (await store.list<ConfigChange[]>(keys.changes(run, ''))).flatMap(({ value }) => value);
}

/** The manifest of a batch. `undefined` while it has not ended. */
export async function manifestIfAny(batch: string, store: Store): Promise<BatchManifest | undefined> {
  return (await store.list<BatchManifest>(keys.manifests(batch))).at(-1)?.value;
}

/** The manifest of a batch that has ended. Errors: `StoreCorrupt` if it is missing. */
export async function manifestOf(batch: string, store: Store): Promise<BatchManifest> {
  const manifest = await manifestIfAny(batch, store);
  if (manifest) return manifest;
  const key = keys.manifests(batch);
  throw new StoreCorrupt('', `the record ${key} is missing`, { key });
}

/**
 * The model calls of an attempt, in order. Errors: `StoreCorrupt` if one of them, or of the first `atLeast`, is
 * missing: the context would be wrong without it.
 */
export async function turnsOf(
  store: Store,
  attempt: Pick<Attempt, 'rollout' | 'attempt'>,
  atLeast = 0,
): Promise<GenerateRecord[]> {
  const prefix = `generate:${attemptKey(attempt)}/`;
  const rows = await store.list<GenerateRecord>(prefix);
  for (let i = 0; i < Math.max(rows.length, atLeast); i += 1) {
    const key = `${prefix}${padded(i + 1)}`;
    if (rows[i]?.key !== key) throw new StoreCorrupt('', `the record ${key} is missing`, { key });
  }
  return rows.map(({ value }) => value);
}

/** The tools' answers of an attempt, by turn. */
export async function actsOf(
  store: Store,
  attempt: Pick<Attempt, 'rollout' | 'attempt'>,
): Promise<Map<number, ActRecord>> {
  const rows = await store.list<ActRecord>(`act:${attemptKey(attempt)}/`);
  return new Map(rows.map(({ key, value }) => [Number(key.slice(key.lastIndexOf('/') + 1)), value]));
}

/** Rewards that the environment's steps gave in these turns of an attempt, by turn; `undefined` if there are none. */
export async function turnRewardsOf(
  store: Store,
  attempt: Pick<Attempt, 'rollout' | 'attempt'>,
  turns: readonly GenerateRecord[],
): Promise<ReadonlyMap<number, number> | undefined> {
  if (!turns.some(({ command }) => command?.do === 'step')) return undefined;
  const rewards = [...(await actsOf(store, attempt))].flatMap(([turn, { reward }]) =>
    reward === undefined ? [] : [[turn, reward] as const],
  );
  return rewards.length === 0 ? undefined : new Map(rewards);
}

/**
 * The last answers before `turn` that `counts` accepts. Turns without answers are skipped, so that it mostly reads one
 * record, however many turns there are.
 */
export async function lastActBefore(
  turn: number,
  attempt: Attempt,
  store: Pick<Store, 'get'>,
  counts: (record: ActRecord) => boolean = () => true,
): Promise<ActRecord | undefined> {
  for (let before = turn - 1; before > 0; before -= 1) {
    const record = await store.get<ActRecord>(keys.act(attempt, before));
    if (record !== undefined && counts(record)) return record;
  }
  return undefined;
}
