/** What a process of the stack is started with; its digest changes with any part of that. */

import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { StackPaths } from '../../connection/stack-paths.ts';

export interface ProcessSpec {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly log: string;
  readonly digest: string;
  /** How it differs from other processes of its role. */
  readonly note?: string;
  /** Removes files of an earlier process of that name that could be mistaken for this one's. */
  beforeStart(): void;
  isReady(pid: number): Promise<boolean>;
}

export interface Command {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** Variables of this process, in addition to the environment that the supervisor inherited. */
  readonly env: Readonly<Record<string, string>>;
  readonly note?: string;
}

/** A process that writes `ready/NAME.json` with its pid when it is ready. */
export function readyFileSpec(paths: StackPaths, what: Command): ProcessSpec {
  const ready = join(paths.ready, `${what.name}.json`);
  return {
    ...what,
    env: { ...process.env, ...what.env, LONGHAUL_HOME: paths.home, LONGHAUL_WORKER_NAME: what.name },
    log: join(paths.logs, `${what.name}.log`),
    digest: digestOf(what),
    beforeStart() {
      mkdirSync(paths.ready, { recursive: true });
      rmSync(ready, { force: true });
    },
    isReady: async (pid) => readyPid(ready) === pid,
  };
}

/**
 * Covers the process's command, arguments and own variables (the stack's settings too), but not the environment that it
 * inherits: a supervisor that is started in another terminal can still adopt the process.
 */
export function digestOf({ command, args, env }: Command): string {
  return createHash('sha256')
    .update(JSON.stringify([command, args, env]))
    .digest('hex')
    .slice(0, 16);
}

function readyPid(path: string): number | undefined {
  try {
    return (JSON.parse(readFileSync(path, 'utf8')) as { pid?: number }).pid;
  } catch {
    return undefined;
  }
}
