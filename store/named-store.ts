/** A store whose disk errors have their class, and whose calls wait while the disk is full or read-only. */

import { WriteQueue } from './write-queue.ts';
import { retryWhileDiskUnavailable, type Patience } from './disk-patience.ts';
import type { Store } from './store.ts';

/** Methods that a lock blocks. It does not block readers: SQLite's log lets them read the earlier state. */
const WRITES: ReadonlySet<string | symbol> = new Set<keyof Store>([
  'putOnce',
  'putObject',
  'putOnceWithObject',
  'append',
  'begin',
  'acquireLease',
  'acquireLeases',
  'releaseLease',
  'reportWorker',
  'removeWorker',
]);

/**
 * Every method of a store is safe to repeat: a failed write leaves nothing, and a value is inserted once. With
 * patience, writes go through a queue.
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
