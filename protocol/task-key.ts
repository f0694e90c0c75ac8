/**
 * Task keys, `SOURCE-SPLIT-N`: N counts from 0, SPLIT is one of the dataset's splits, SOURCE is the unique name of a
 * configured entry. The catalog of a run or an eval, an object in the store, says what its sources are.
 */

import type { ObjectRef } from './stages.ts';

/** One configured entry of tasks. */
export interface TaskSource {
  readonly environment: string;
  /** As given. JSON. */
  readonly options: Readonly<Record<string, unknown>>;
  /** Absolute. Relative paths in `options` start there; absent: at the process's own folder. */
  readonly folder?: string;
  /** The commit of each `OWNER/NAME@REVISION` of a hub that `options` name, as it was when the run or eval started. */
  readonly commits?: Readonly<Record<string, string>>;
  /** The dataset's digest when the run or eval started. Absent: any. */
  readonly digest?: string;
}

/** What the keys of a run or an eval mean. */
export interface TaskCatalog {
  readonly sources: Readonly<Record<string, TaskSource>>;
  /** Digest of the bundle of the user's modules. Absent: there are none. */
  readonly modules?: ObjectRef;
}

/** The first `count` tasks of one source and split. */
export interface TaskPool {
  readonly source: string;
  readonly split: string;
  readonly count: number;
}

/** A pool that steps draw from, in proportion to its `weight`. */
export interface WeightedPool extends TaskPool {
  readonly weight: number;
}

/** The tasks of a run, as they were when it started. */
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

/** `undefined` if `key` belongs to none of `sources`. If two fit, the longer name counts. */
export function readTaskKey(key: string, sources: Iterable<string>): TaskPlace | undefined {
  const found = [...sources].filter((source) => key.startsWith(`${source}-`));
  for (const source of found.toSorted((a, b) => b.length - a.length)) {
    const [, split, index] = REST.exec(key.slice(source.length)) ?? [];
    if (split !== undefined) return { source, split, index: Number(index) };
  }
  return undefined;
}
