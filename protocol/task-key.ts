/**
 * Tasks by their keys, `SOURCE-SPLIT-N`: N counts from 0, SPLIT is one of the dataset's, SOURCE is the unique name of a
 * configured entry. What the sources of a run or an eval stand for is in its catalog, an object of the store.
 */

import type { ObjectRef } from './stages.ts';

/** One configured entry of tasks. */
export interface TaskSource {
  readonly environment: string;
  /** As they are given; JSON. */
  readonly options: Readonly<Record<string, unknown>>;
  /** Absolute; relative paths in `options` are taken from it. Absent: from the process's own folder. */
  readonly folder?: string;
  /** Of the dataset, when the run or eval began; absent: any. */
  readonly digest?: string;
}

/** What the keys of a run or an eval mean. */
export interface TaskCatalog {
  readonly sources: Readonly<Record<string, TaskSource>>;
  /** Digest of the bundle of the user's own modules; absent: it has none. */
  readonly modules?: string;
}

/** Tasks of one source and split, the first `count` of them. */
export interface TaskPool {
  readonly source: string;
  readonly split: string;
  readonly count: number;
}

/** A pool that steps draw from, by `weight` in proportion to the others. */
export interface WeightedPool extends TaskPool {
  readonly weight: number;
}

/** The tasks of a run, as they were when it began. */
export interface OpenedTasks {
  readonly catalog: ObjectRef;
  readonly train: readonly WeightedPool[];
  readonly heldOut: readonly TaskPool[];
}

export interface TaskPlace {
  readonly source: string;
  readonly split: string;
  readonly index: number;
}

export function taskKey(source: string, split: string, index: number): string {
  return `${source}-${split}-${index}`;
}

const REST = /^-(.*[^-])-(0|[1-9]\d{0,14})$/;

/** `undefined` if `key` is of none of `sources`. Of two sources that it could be of, the longer name counts. */
export function readTaskKey(key: string, sources: Iterable<string>): TaskPlace | undefined {
  const found = [...sources].filter((source) => key.startsWith(`${source}-`));
  for (const source of found.toSorted((a, b) => b.length - a.length)) {
    const [, split, index] = REST.exec(key.slice(source.length)) ?? [];
    if (split !== undefined) return { source, split, index: Number(index) };
  }
  return undefined;
}
