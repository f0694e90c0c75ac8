/** Which form the tables of a store have: one of another form is refused, never read as if it were ours. */

import type { DatabaseSync } from 'node:sqlite';

/** In the file's `user_version`, which is 0 where nobody has set it: in stores whose rows have no checksums. */
export const FORMAT = 3;

/** A store of another version of Longhaul. */
export class StoreFormatUnknown extends Error {
  override readonly name = 'StoreFormatUnknown';
  readonly place: string;

  constructor(place: string, found: number) {
    super(
      `The store at ${place} has format ${found}, and this version reads format ${FORMAT} alone: use the version that made it, or set LONGHAUL_HOME to another folder`,
    );
    this.place = place;
  }
}

/** Errors: `StoreFormatUnknown`. */
export function checkFormat(db: DatabaseSync, dir: string): void {
  const found = Number(db.prepare('PRAGMA user_version').get()?.['user_version']);
  if (found !== FORMAT) throw new StoreFormatUnknown(dir, found);
}
