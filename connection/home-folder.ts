/**
 * The home of a stack is its owner's alone: what is in it (the store, sandboxes, sockets, logs, ports) is no other user's
 * to read, whatever the umask. Runs' folders lie elsewhere.
 */

import { chmodSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { UserInputError } from '../protocol/user-input-error.ts';

const OTHERS = 0o077;
/** As /tmp has it: a folder in which everybody keeps things. */
const STICKY = 0o1000;

/** What is made in a home first, by whichever command. */
const OURS = ['stack.json', 'store', 'temporal.db', 'allowed', 'logs', 'ready', 'supervisor.lock', 'sandboxes'];

function isOurs(home: string): boolean {
  const names = readdirSync(home);
  return names.length === 0 || OURS.some((name) => names.includes(name));
}

/** Makes it where it is not, and closes it where it is open. Errors: `UserInputError` where it is not ours to close. */
export function makeHome(home: string): void {
  mkdirSync(home, { recursive: true, mode: 0o700 });
  const { mode } = statSync(home);
  if ((mode & OTHERS) === 0) return;
  if ((mode & STICKY) !== 0)
    throw new UserInputError('LONGHAUL_HOME', home, "give a folder of its own: that one is everybody's");
  if (!isOurs(home))
    throw new UserInputError(
      'LONGHAUL_HOME',
      home,
      'give a folder of its own: that one has files of something else, and other users can enter it (to use it all the same: chmod 700)',
    );
  try {
    chmodSync(home, mode & ~OTHERS & 0o7777);
  } catch (error) {
    throw new UserInputError(
      'LONGHAUL_HOME',
      home,
      'other users can enter it, and only its owner can change that (chmod 700); or give a folder of your own',
      { cause: error },
    );
  }
}
