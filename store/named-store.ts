/** A store whose failures carry the class of what the disk did, and whose calls wait for a disk that is full or read-only. */

import { WriteQueue } from './write-queue.ts';
import { retryWhileDiskUnavailable, type Patience } from './disk-patience.ts';
import type { Store } from './store.ts';

/** What a lock keeps out. Readers pass it by, for SQLite's log lets them see what was there before. */
const WRITES: ReadonlySet<string | symbol> = new Set<keyof Store>([
  'putOnce',
  'putObject',
  'putOnceWithObject',
  'append',
  'begin',
  'acquireLease',
  'releaseLease',
]);

/**
 * Every method of a store may be repeated: a write that failed has left nothing, and a value is inserted once. With
 * patience, writes stand in line.
 */
export function namedStore(store: Store, dir: string, patience: Patience | undefined): Store {
  const line = patience === undefined ? undefined : new WriteQueue(dir);
  return new Proxy(store, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => {
        const work = (): Promise<unknown> => Promise.resolve(value.apply(target, args));
        return retryWhileDiskUnavailable(
          dir,
          patience,
          line !== undefined && WRITES.has(property) ? () => line.enter(work) : work,
        );
      };
    },
  });
}
