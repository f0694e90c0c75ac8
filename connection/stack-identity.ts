/**
 * Which stack a server belongs to. Temporal makes an id with each new database, keeps it there, and answers with it: it
 * stays the same when the server restarts, also on another port, and no other database has it.
 */

import { DatabaseSync } from 'node:sqlite';

/** The id of the stack that a worker belongs to: its supervisor sets it. */
export const STACK_ID_VARIABLE = 'LONGHAUL_STACK_ID';

/** A server of another stack answers where a certain one is expected. Nothing was asked of it but its id. */
export class WrongStack extends Error {
  override readonly name = 'WrongStack';
  readonly address: string;
  /** The folder of the stack that is expected. */
  readonly home: string;
  readonly expected: string;
  readonly answered: string;
  readonly remedy: string;

  constructor({ address, home, expected, answered }: Pick<WrongStack, 'address' | 'home' | 'expected' | 'answered'>) {
    const who =
      answered === expected ? 'a copy of it answered, while the stack itself is down' : `stack ${answered} answered`;
    const remedy = `Start the expected stack: LONGHAUL_HOME=${home} npx longhaul up --detach (it takes another port). To use the other one, set TEMPORAL_ADDRESS=${address}`;
    super(`Temporal at ${address} is not the stack in ${home}: stack ${expected} was expected, ${who}. ${remedy}`);
    [this.address, this.home, this.expected, this.answered, this.remedy] = [address, home, expected, answered, remedy];
  }
}

/** The `WrongStack` that `error` is, or was caused by. */
export function wrongStackIn(error: unknown): WrongStack | undefined {
  for (
    let current: unknown = error, depth = 0;
    current instanceof Error && depth < 8;
    current = current.cause, depth += 1
  ) {
    if (current instanceof WrongStack) return current;
    // A call's failure has the fields of the status that ended it.
    if ('wrongStack' in current && current.wrongStack instanceof WrongStack) return current.wrongStack;
  }
  return undefined;
}

/** The result of `ask`. Errors: `WrongStack` by itself, where Temporal's client has wrapped it; else those of `ask`. */
export async function naming<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    throw wrongStackIn(error) ?? error;
  }
}

/** Whether `id` is that of this database of Temporal's; false where it cannot be read, or not yet. */
export function isIdOf(database: string, id: string): boolean {
  if (id === '') return false;
  try {
    const db = new DatabaseSync(database, { readOnly: true });
    try {
      const rows = db.prepare('SELECT data FROM cluster_metadata_info').all();
      return rows.some(({ data }) => data instanceof Uint8Array && Buffer.from(data).includes(id));
    } finally {
      db.close();
    }
  } catch {
    return false;
  }
}
