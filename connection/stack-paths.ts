/** The paths of a stack's files, all below one folder. */

import { statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { UserInputError } from '../protocol/user-input-error.ts';

export interface StackPaths {
  readonly home: string;
  readonly state: string;
  readonly lock: string;
  readonly logs: string;
  readonly ready: string;
  readonly database: string;
}

/** `$LONGHAUL_HOME`, default `.longhaul` in the working directory. Errors: `UserInputError` if that is a file. */
export function stackHome(env: NodeJS.ProcessEnv = process.env, cwd = process.cwd()): string {
  const home = resolve(cwd, env['LONGHAUL_HOME'] || '.longhaul');
  if (statSync(home, { throwIfNoEntry: false })?.isDirectory() === false)
    throw new UserInputError('LONGHAUL_HOME', home, 'give a folder: that is a file');
  return home;
}

export function stackPaths(home: string): StackPaths {
  return {
    home,
    state: join(home, 'stack.json'),
    lock: join(home, 'supervisor.lock'),
    logs: join(home, 'logs'),
    ready: join(home, 'ready'),
    database: join(home, 'temporal.db'),
  };
}

/** The path of the supervisor's log. */
export function supervisorLog({ logs }: Pick<StackPaths, 'logs'>): string {
  return join(logs, 'supervisor.log');
}
