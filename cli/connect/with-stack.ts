/** Starts this folder's stack if it is not up, passes a client and the store to `body`, and closes both. */

import type { TemporalPlace } from '../../reports/run-summary.ts';
import { storeUrl } from '../../connection/store-url.ts';
import { openStore } from '../../store/open-store.ts';
import type { Store } from '../../store/store.ts';
import { ensureStack } from '../../stack/ensure-stack.ts';
import { Longhaul } from '../../client/longhaul.ts';
import type { Screen } from '../train/follow.ts';

export interface Stack {
  readonly longhaul: Longhaul;
  readonly store: Store;
  readonly temporal: TemporalPlace;
}

/** Errors: `Unreachable` if the stack does not start; the reason of `signal` if it fires before `body` starts. */
export async function withStack<T>(
  screen: Screen,
  signal: AbortSignal,
  body: (stack: Stack) => Promise<T>,
): Promise<T> {
  const { address, namespace, ui, stateDir } = await ensureStack({ say: (line) => screen.line(line), signal });
  const longhaul = await Longhaul.connect({ home: stateDir, namespace });
  const store = await openStore(storeUrl(stateDir));
  try {
    signal.throwIfAborted();
    return await body({ longhaul, store, temporal: { address, namespace, ui } });
  } finally {
    await store.close();
    await longhaul.close();
  }
}
