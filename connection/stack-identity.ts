/**
 * The identity of a stack: the id that Temporal creates in each new database and returns to clients. It stays the same
 * when the server restarts, on any port, and no other database has it.
 */

import { DatabaseSync } from 'node:sqlite';

/** Holds the id of a worker's stack. The supervisor sets it. */
export const STACK_ID_VARIABLE = 'LONGHAUL_STACK_ID';

/** The server at an address belongs to another stack than the expected one. Only its id was requested. */
export class WrongStack extends Error {
  override readonly name = 'WrongStack';
  readonly address: string;
  /** The folder of the expected stack. */
  readonly home: string;
  readonly expected: string;
  readonly answered: string;
  readonly remedy: string;

  constructor({ address, home, expected, answered }: Pick<WrongStack, 'address' | 'home' | 'expected' | 'answered'>) {
    const who =
      answered === expected ? 'a copy of it answered, while the stack itself is down' : `stack ${answered} answered`;
    const remedy =
      `Start the expected stack: LONGHAUL_HOME=${home} npx longhaul up --detach (it takes another port). ` +
      `To use the other one, set TEMPORAL_ADDRESS=${address}`;
    super(`Temporal at ${address} is not the stack in ${home}: stack ${expected} was expected, ${who}. ${remedy}`);
    [this.address, this.home, this.expected, this.answered, this.remedy] = [address, home, expected, answered, remedy];
  }
}

/** The `WrongStack` in `error` or in its causes. */
export function wrongStackIn(error: unknown): WrongStack | undefined {
  for (
    let current: unknown = error, depth = 0;
    current instanceof Error && depth < 8;
    current = current.cause, depth += 1
  ) {
    if (current instanceof WrongStack) return current;
    // The error of a failed call has the fields of the call's status.
    if ('wrongStack' in current && current.wrongStack instanceof WrongStack) return current.wrongStack;
  }
  return undefined;
}

/** The result of `ask`. Errors: `WrongStack`, unwrapped if Temporal's client has wrapped it; else those of `ask`. */
export async function naming<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    throw wrongStackIn(error) ?? error;
  }
}

/** True if `id` is the id of this Temporal database. False also if the database cannot be read, or not yet. */
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
