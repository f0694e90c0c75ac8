/** Starts the stack unless it is up: afterwards the server answers and every worker polls, or an error says why not. */

import { spawn } from 'node:child_process';
import { closeSync } from 'node:fs';
import { extname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { UserInputError } from '../protocol/user-input-error.ts';
import { orAborted } from '../activities/or-aborted.ts';
import { IS_REMOTE, remoteDockerHost } from '../sandboxes/docker/remote-host.ts';
import { isAlive, type ProcessIdentity, startTimeOf } from '#setup/process-identity.mjs';
import { lockHolder } from '#setup/process-lock.mjs';
import { checkCluster, registerSearchAttributes, SearchAttributesRefused } from './temporal-server/cluster-health.ts';
import { RETENTION_VARIABLE } from './temporal-server/retention.ts';
import { SEARCH_ATTRIBUTES } from './temporal-server/search-attributes.ts';
import { askedFor } from '../workers/sandbox-choice.ts';
import { readSandboxSettings } from '../workers/settings.ts';
import { chooseCluster, type Cluster } from './choose-cluster.ts';
import { refuseUnusableDisks, stackPlaces } from './disk-room.ts';
import { makeHome } from '../connection/home-folder.ts';
import { logTail, openLog, rotateLog } from './processes/log-files.ts';
import { checkEngine, serverProgram } from './stack-plan.ts';
import { refuseOtherSettings, stackSettings, wantedRoles } from './stack-settings.ts';
import { type StackSettings, readStackState, type StackState } from '../connection/stack-state.ts';
import { stackHome, type StackPaths, stackPaths, supervisorLog } from '../connection/stack-paths.ts';
import { stopProcess } from './processes/stop-process.ts';
import { stopStack } from './stop-stack.ts';
import { runningStack } from '../connection/stack-now.ts';
import { Unreachable } from '../connection/unreachable.ts';

const POLL_MS = 50;
const HOPELESS_STARTS = 3;

export interface EnsureStackOptions {
  /** Default: `$LONGHAUL_HOME`, else `.longhaul` in the working directory. */
  readonly home?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** Receives lines about progress. */
  readonly say?: (line: string) => void;
  /** Default 120 s. */
  readonly timeoutMs?: number;
  /** If aborted, the wait ends with the signal's reason, and the stack continues to start. */
  readonly signal?: AbortSignal;
  /** The supervisor's program, for tests. */
  readonly program?: string;
}

export interface RunningStack {
  readonly address: string;
  readonly namespace: string;
  readonly ui: string;
  readonly stateDir: string;
  /** False if it was up already. */
  readonly started: boolean;
}

/**
 * Errors: `UserInputError` if the running stack has other settings than `env`; `Unreachable` if the cluster does not
 * answer or a process of the stack does not start; `DiskUnusable` if there is no space for it.
 */
export async function ensureStack(options: EnsureStackOptions = {}): Promise<RunningStack> {
  const { env = process.env, say = () => undefined, signal = new AbortController().signal } = options;
  const paths = stackPaths(options.home ?? stackHome(env));
  const asked = stackSettings(env, process.cwd());
  const cluster = chooseCluster(env);
  refuseUnusableDisks(stackPlaces(paths.home, env));
  if (cluster.kind === 'existing') {
    refuseRetention(asked);
    await orAborted(() => prepareExisting(cluster, say), signal);
  }
  await waitWhileStopping(paths, signal);
  const kept = keptSettings(asked, paths);
  const started = lockHolder(paths.lock) === undefined;
  if (started) {
    if (cluster.kind === 'embedded') serverProgram(env);
    checkEngine(env);
    refuseRemoteDocker(env);
    say(`starting the stack (state and logs in ${paths.home})`);
  }
  const supervisor = started ? startSupervisor(paths, { ...env, ...kept }, options.program) : undefined;
  try {
    const state = await waitUntilUp(paths, options, () => supervisor === undefined || !isAlive(supervisor));
    refuseOther(cluster, state, paths);
    refuseOtherSettings(asked, state.settings, paths.home);
    return { address: state.address, namespace: state.namespace, ui: state.ui, stateDir: paths.home, started };
  } catch (error) {
    if (supervisor !== undefined && error instanceof Unreachable) {
      // `stopStack` finds a supervisor by its lock, which this one may not have taken yet.
      await stopProcess(supervisor, 60_000);
      await stopStack({ home: paths.home });
    }
    throw error;
  }
}

/** Checked here, before workers fail repeatedly. Errors: `UserInputError` if Docker's daemon is on another machine. */
function refuseRemoteDocker(env: NodeJS.ProcessEnv): void {
  const inSandboxes = wantedRoles(env).some((role) => role !== 'orchestrator' && role !== 'gpu');
  if (!inSandboxes || askedFor(readSandboxSettings(env))?.provider !== 'docker') return;
  const remote = remoteDockerHost(env);
  if (remote !== undefined) throw new UserInputError(remote.by ?? 'Docker', remote.host, IS_REMOTE);
}

/** Errors: `UserInputError` if a retention is set: an existing cluster's namespace has its own. */
function refuseRetention({ [RETENTION_VARIABLE]: given }: StackSettings): void {
  if (given === undefined) return;
  throw new UserInputError(
    RETENTION_VARIABLE,
    given,
    "leave it out: the cluster is not this stack's own; to set its retention: " +
      'temporal operator namespace update --retention',
  );
}

/** The settings of a stack of which at least one process runs: a new supervisor keeps them. */
function keptSettings(asked: StackSettings, paths: StackPaths): StackSettings {
  const running = runningStack(paths);
  if (running === undefined) return {};
  refuseOtherSettings(asked, running.settings, paths.home);
  return running.settings ?? {};
}

async function prepareExisting(cluster: Cluster & { kind: 'existing' }, say: (line: string) => void): Promise<void> {
  const { connection, namespace, address } = cluster;
  try {
    await checkCluster(connection, namespace, 5_000);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const remedy = 'Start that cluster, or unset TEMPORAL_ADDRESS (and TEMPORAL_PROFILE) for the embedded server.';
    const how = `is not reachable (${why})`;
    throw new Unreachable(`Temporal at ${address}, namespace ${namespace},`, remedy, { cause: error, how });
  }
  try {
    const added = await registerSearchAttributes(connection, namespace);
    if (added.length > 0) say(`registered search attributes: ${added.join(', ')}`);
  } catch (error) {
    if (error instanceof SearchAttributesRefused) throw lacksAttributes(cluster, error);
    // Hosted clusters may allow the look-up only to administrators; workflows report what is missing when they need it.
    say(`search attributes could not be looked up: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function lacksAttributes(
  { address, namespace }: Cluster & { kind: 'existing' },
  error: SearchAttributesRefused,
): Unreachable {
  const remedy = `Ask an administrator to register them (temporal operator search-attribute create, types: ${error.lacking
    .map((name) => `${name}=${SEARCH_ATTRIBUTES[name as keyof typeof SEARCH_ATTRIBUTES]}`)
    .join(', ')}).`;
  const how =
    'lacks search attributes that every workflow sets, and they could not be registered: ' +
    `${error.lacking.join(', ')}`;
  return new Unreachable(`Temporal at ${address}, namespace ${namespace},`, remedy, { cause: error, how });
}

async function waitWhileStopping(paths: StackPaths, signal: AbortSignal): Promise<void> {
  for (;;) {
    const holder = lockHolder(paths.lock);
    const state = readStackState(paths.state);
    if (holder === undefined || state?.supervisor.pid !== holder.pid || state.phase !== 'stopping') return;
    signal.throwIfAborted();
    await sleep(POLL_MS);
  }
}

function startSupervisor(paths: StackPaths, env: NodeJS.ProcessEnv, program: string | undefined): ProcessIdentity {
  const main = program ?? fileURLToPath(new URL(`main${extname(import.meta.filename)}`, import.meta.url));
  makeHome(paths.home);
  rotateLog(supervisorLog(paths), 1024 * 1024);
  const descriptor = openLog(supervisorLog(paths));
  const child = spawn(process.execPath, [main, paths.home], {
    env,
    detached: true,
    stdio: ['ignore', descriptor, descriptor],
  });
  closeSync(descriptor);
  child.unref();
  const pid = child.pid ?? 0;
  return { pid, startTime: startTimeOf(pid) ?? '' };
}

async function waitUntilUp(
  paths: StackPaths,
  options: EnsureStackOptions,
  hasEnded: () => boolean,
): Promise<StackState> {
  const deadline = performance.now() + (options.timeoutMs ?? 120_000);
  for (;;) {
    options.signal?.throwIfAborted();
    const holder = lockHolder(paths.lock);
    const state = readStackState(paths.state);
    const current =
      holder !== undefined && state?.supervisor.pid === holder.pid && isAlive(state.supervisor) ? state : undefined;
    if (current?.phase === 'up') return current;
    const hopeless = current?.processes.find((one) => one.failedStarts >= HOPELESS_STARTS);
    if (hopeless !== undefined) throw broken(hopeless.name, 'does not start', hopeless.log);
    const late = performance.now() > deadline;
    if (late || (holder === undefined && hasEnded())) {
      const waiting = current?.processes.find((one) => one.state !== 'ready');
      throw broken(
        waiting?.name ?? 'the supervisor',
        late ? 'is not ready' : 'ended',
        waiting?.log ?? supervisorLog(paths),
      );
    }
    await sleep(POLL_MS);
  }
}

/** Errors: `Unreachable` if the home's stack runs on another cluster than the one that was given. */
function refuseOther(cluster: Cluster, state: StackState, paths: StackPaths): void {
  if (cluster.kind === 'embedded' || byNumber(cluster.address) === byNumber(state.address)) return;
  const how = `is not the cluster of the stack in ${paths.home}, which runs on ${state.address}`;
  throw new Unreachable(
    `Temporal at ${cluster.address}`,
    'Run: npx longhaul down, or set LONGHAUL_HOME to another folder.',
    { how },
  );
}

/** The embedded server's address has 127.0.0.1, and users write `localhost`. */
function byNumber(address: string): string {
  return address.replace(/^localhost(?=:)/i, '127.0.0.1');
}

function broken(name: string, how: string, log: string): Unreachable {
  return new Unreachable(`The stack's ${name}`, `Its log, ${log}, ends:\n${logTail(log)}`, { how });
}
