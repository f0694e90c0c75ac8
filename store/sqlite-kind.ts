/** The scheme `sqlite:`: a store in one file of a folder. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { StoreKind } from './open-store.ts';
import { storeBytes, StorePruner } from './sqlite-prune.ts';
import { openSqliteStore } from './sqlite-store.ts';
import { verifyStore, wholeRecords } from './verify-store.ts';

export const sqliteKind: StoreKind = {
  open: async (dir, patience) => openSqliteStore(dir, patience),
  exists: async (dir) => existsSync(join(dir, 'store.sqlite')),
  verify: verifyStore,
  wholeRecords,
  openPruner: async (dir) => new StorePruner(dir),
  bytes: async (dir) => storeBytes(dir),
};
