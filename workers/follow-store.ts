/**
 * Keeps the read model of the stack's store up to date, so that the next reader has little to apply. Nothing waits for
 * it: without it, readers apply more.
 */

import { openReadModel } from '../reports/read-model/read-model.ts';
import type { Store } from '../store/store.ts';

const EVERY_MS = 5_000;

/** Follows `store` until the returned function is called. `note` receives the first error. */
export function followStore(store: Store, home: string, note: (line: string) => void): () => Promise<void> {
  const model = openReadModel(store, home);
  let refreshing: Promise<void> | undefined;
  let isNoted = false;
  const refresh = async (): Promise<void> => {
    try {
      await model.refresh();
    } catch (error) {
      // A damaged record is reported by the reader that needs it.
      if (!isNoted) note(`the read model is not up to date: ${String(error)}`);
      isNoted = true;
    }
    refreshing = undefined;
  };
  const timer = setInterval(() => void (refreshing ??= refresh()), EVERY_MS).unref();
  return async () => {
    clearInterval(timer);
    await refreshing;
    model.close();
  };
}
