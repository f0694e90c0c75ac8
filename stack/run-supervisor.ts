/** The life of a supervisor process: the only one of its stack. It drains at SIGTERM and ignores a closed terminal. */

import { tryLock } from '#setup/process-lock.mjs';
import { logCrashes, openProcessLog, outliveFullLog } from '../workers/logs/process-log.ts';
import { makeHome } from '../connection/home-folder.ts';
import type { StackPlan } from './stack-plan.ts';
import { stackPaths } from '../connection/stack-paths.ts';
import { Supervisor } from './supervisor.ts';

/** Returns when the stack is down, or at once if another supervisor has this home. */
export async function runSupervisor(home: string, plan: () => StackPlan): Promise<void> {
  const paths = stackPaths(home);
  makeHome(home);
  const release = tryLock(paths.lock);
  if (release === undefined) return;
  outliveFullLog();
  const log = openProcessLog('supervisor');
  logCrashes(log);
  const stop = new AbortController();
  process.on('SIGTERM', () => stop.abort());
  process.on('SIGINT', () => stop.abort());
  process.on('SIGHUP', () => undefined);
  try {
    await new Supervisor(paths, plan(), (line, level = 'info') => log[level](line)).run(stop.signal);
  } finally {
    release();
  }
}
