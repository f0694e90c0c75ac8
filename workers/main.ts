/** The entry of every worker process: `node workers/main.ts --role ROLE`. Only what the role needs is loaded. */

import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { refuseOldVariables } from './allowed/module-places.ts';
import { type Logger, logCrashes, openProcessLog, outliveFullLog } from './logs/process-log.ts';
import { installRuntime, type RoleContext } from './run-worker.ts';
import { makeHome } from '../connection/home-folder.ts';
import { readWorkerSettings, type Role, ROLES } from './settings.ts';
import { connectWorker, type WorkerConnection } from '../connection/temporal-connection.ts';

const CLOSE_MS = 5_000;

type RunRole = (context: RoleContext) => Promise<void>;

async function load(role: Role): Promise<RunRole> {
  switch (role) {
    case 'orchestrator':
      return (await import('./roles/orchestrator.ts')).runOrchestrator;
    case 'gpu':
      return (await import('./roles/gpu.ts')).runGpu;
    default: {
      const hosts = await import('./roles/sandbox-host.ts');
      return { init: hosts.runInit, 'agent-run': hosts.runAgentRun, reward: hosts.runReward }[role];
    }
  }
}

function isRole(value: string | undefined): value is Role {
  return ROLES.some((role) => role === value);
}

/** A connection that workers still use refuses to close, and one to a dead server may hang: neither hides an error. */
async function closeAtMost({ connection, watch }: WorkerConnection): Promise<void> {
  await watch?.close();
  await Promise.race([connection.close().catch(() => undefined), sleep(CLOSE_MS, undefined, { ref: false })]);
}

/**
 * Runs the worker of `role` until a signal stops it; the connection is closed however it ends.
 * Errors: a `TypeError` for an unknown role; `UserInputError` for a setting that cannot be used; `Unreachable`
 * without Temporal.
 */
export async function runRole(role: string | undefined, log: Logger = openProcessLog(role ?? 'worker')): Promise<void> {
  outliveFullLog();
  if (!isRole(role))
    throw new TypeError(`--role: ${JSON.stringify(role)} cannot be used; give one of ${ROLES.join(', ')}`);
  refuseOldVariables(process.env);
  const settings = readWorkerSettings();
  makeHome(settings.home);
  installRuntime(log);
  const temporal = await connectWorker(process.env, (error) =>
    log.fatal({ error }, `this worker ends: ${error.message}`),
  );
  try {
    const run = await load(role);
    await run({ settings, temporal, log });
  } finally {
    await closeAtMost(temporal);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({ options: { role: { type: 'string' } } });
  const log = openProcessLog(values.role ?? 'worker');
  logCrashes(log);
  runRole(values.role, log).catch((error: unknown) => {
    log.fatal({ error }, error instanceof Error ? error.message : String(error));
    // Engine, native workers or timers may keep the event loop alive: the supervisor waits for this exit.
    process.exit(1);
  });
}
