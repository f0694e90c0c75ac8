/** A store whose failures carry the class of what the disk did, and whose calls wait for a disk that is full or read-only. */

import { patiently, type Patience } from './patience.ts';
import type { Store } from './store.ts';

/** Every method of a store may be repeated: a write that failed has left nothing, and a value is inserted once. */
export function namedStore(store: Store, dir: string, patience: Patience | undefined): Store {
  return new Proxy(store, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => patiently(dir, patience, () => Promise.resolve(value.apply(target, args)));
    },
  });
}
