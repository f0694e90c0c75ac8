/** The format of a store's tables. A store with another format is refused. */

import type { DatabaseSync } from 'node:sqlite';

/** Kept in the file's `user_version`. It is 0 in old stores, whose rows have no checksums. */
export const FORMAT = 5;

/** The store was made by a version of Longhaul with another format. */
export class StoreFormatUnknown extends Error {
  override readonly name = 'StoreFormatUnknown';
  readonly place: string;

  constructor(place: string, found: number) {
    super(
      `The store at ${place} has format ${found}, and this version of Longhaul reads only format ${FORMAT}: ` +
        'use the version that made the store, or set LONGHAUL_HOME to another folder',
    );
    this.place = place;
  }
}

/** Errors: `StoreFormatUnknown`. */
export function checkFormat(db: DatabaseSync, dir: string): void {
  const found = Number(db.prepare('PRAGMA user_version').get()?.['user_version']);
  if (found !== FORMAT) throw new StoreFormatUnknown(dir, found);
}
