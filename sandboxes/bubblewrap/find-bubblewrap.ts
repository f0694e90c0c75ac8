/** Finds this machine's bubblewrap and what it supports. */

import { execFileSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

import { SandboxUnavailable } from '../sandbox.ts';

export interface Bubblewrap {
  readonly path: string;
  /** Has `--disable-userns`: 0.8.0 and later. */
  readonly disablesUserNamespaces: boolean;
}

const REMEDY = 'on Debian and Ubuntu: apt install bubblewrap';

function onPath(): string {
  for (const folder of (process.env['PATH'] ?? '').split(delimiter)) {
    try {
      accessSync(join(folder, 'bwrap'), constants.X_OK);
      return join(folder, 'bwrap');
    } catch {
      // Not in this folder.
    }
  }
  throw new SandboxUnavailable(`bwrap is not on PATH (${REMEDY})`);
}

/** Errors: `SandboxUnavailable` if it is missing or does not start. */
export function findBubblewrap(path: string = onPath()): Bubblewrap {
  let said: string;
  try {
    said = execFileSync(path, ['--version'], { encoding: 'utf8' });
  } catch (error) {
    throw new SandboxUnavailable(`${path} does not start (${REMEDY}): ${String(error)}`);
  }
  const [, major = '0', minor = '0'] = /(\d+)\.(\d+)/u.exec(said) ?? [];
  return { path, disablesUserNamespaces: Number(major) > 0 || Number(minor) >= 8 };
}
