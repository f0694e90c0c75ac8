/**
 * The home of a stack belongs to its owner only: no other user may read its store, sandboxes, sockets, logs and ports,
 * whatever the umask is. The folders of runs are elsewhere.
 */

import { chmodSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { UserInputError } from '../protocol/user-input-error.ts';

const OTHERS = 0o077;
/** The mode bit of a shared folder such as /tmp. */
const STICKY = 0o1000;

/** Files and folders that a command may create first in a home. */
const OURS = ['stack.json', 'store', 'temporal.db', 'allowed', 'logs', 'ready', 'supervisor.lock', 'sandboxes'];

function isOurs(home: string): boolean {
  const names = readdirSync(home);
  return names.length === 0 || OURS.some((name) => names.includes(name));
}

/**
 * Creates the home if it does not exist, and removes other users' access to it. Errors: `UserInputError` for a folder
 * that is not a home or belongs to another user.
 */
export function makeHome(home: string): void {
  mkdirSync(home, { recursive: true, mode: 0o700 });
  const { mode } = statSync(home);
  if ((mode & OTHERS) === 0) return;
  if ((mode & STICKY) !== 0)
    throw new UserInputError('LONGHAUL_HOME', home, 'give a folder of its own: that one is shared by all users');
  if (!isOurs(home))
    throw new UserInputError(
      'LONGHAUL_HOME',
      home,
      'give a folder of its own: that one contains files of other programs, and other users can enter it (to ' +
        'use it anyway: chmod 700)',
    );
  try {
    chmodSync(home, mode & ~OTHERS & 0o7777);
  } catch (error) {
    throw new UserInputError(
      'LONGHAUL_HOME',
      home,
      'other users can enter it, and only its owner can change that (chmod 700); or give a folder that you own',
      { cause: error },
    );
  }
}
