/**
 * The sandbox provider of this host. The home chose it once: the configured provider, else the fastest one that worked.
 * Records of different providers are never mixed.
 */

import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cacheDirectory } from '#setup/paths.mjs';
import { withLock } from '#setup/process-lock.mjs';
import { createBubblewrapProvider } from '../sandboxes/bubblewrap/provider.ts';
import type { HostProvider } from '../sandboxes/supervised/provider.ts';
import { SandboxImpossible, SandboxUnavailable } from '../sandboxes/sandbox.ts';
import { buildSupervisor } from '../sandboxes/supervisor/build.ts';
import { openWarmPool, type WarmPool } from '../sandboxes/warm-pool.ts';
import { toolsGuard } from './allowed/places.ts';
import type { Store } from '../store/store.ts';
import {
  askedFor,
  choiceFile,
  describeChoice,
  type ProviderName,
  readChoice,
  type SandboxChoice,
  stateDirOf,
  writeChoice,
} from './sandbox-choice.ts';
import type { RoleContext } from './run-worker.ts';
import { leaveIdle } from './sandboxes-in-use.ts';
import type { SandboxSettings, WorkerSettings } from './settings.ts';

/** Sandboxes made ahead of requests: a container takes half a second to make, bubblewrap's sandbox almost no time. */
const WARM: Readonly<Record<ProviderName, number>> = { bubblewrap: 0, docker: 4 };
/** The trial takes some milliseconds; on a busy machine it may take seconds. */
const TRIED_WITHIN_MS = 30_000;

interface Opened extends Pick<WorkerSettings, 'sandboxDir' | 'sandbox'> {
  /** Receives a line for each thing that takes long; default: writes to stderr. */
  readonly say?: (line: string) => void;
}

const toStderr = (line: string): void => console.error(line);
type Trial = 'works' | 'fails' | 'late';

/** An installed bubblewrap is not enough: some machines forbid the namespaces that it needs. */
async function tryBubblewrap(withinMs: number): Promise<Trial> {
  return await promisify(execFile)('bwrap', ['--ro-bind', '/', '/', '--unshare-all', 'true'], {
    timeout: withinMs,
  }).then(
    () => 'works' as const,
    (error: { readonly killed?: boolean }) => (error.killed === true ? 'late' : 'fails'),
  );
}

async function openDocker(
  stateDir: string,
  supervisorPath: string,
  { image, runtime }: SandboxSettings,
  onProgress: (line: string) => void,
): Promise<HostProvider> {
  // Imported only where it is used: loading the client takes as long as making a sandbox.
  const { createDockerProvider } = await import('../sandboxes/docker/provider.ts');
  return await createDockerProvider({
    stateDir,
    supervisorPath,
    cache: cacheDirectory(process.env),
    onProgress,
    guardTools: toolsGuard(),
    ...(image === undefined ? {} : { image }),
    ...(runtime === undefined ? {} : { runtime }),
  });
}

/** Opens the provider of this name, whatever the settings name. Errors: `SandboxUnavailable`, `SandboxImpossible`. */
export async function openProvider(
  name: ProviderName,
  sandboxDir: string,
  sandbox: SandboxSettings,
  say: (line: string) => void = toStderr,
): Promise<HostProvider> {
  const supervisorPath = await buildSupervisor(join(cacheDirectory(process.env), 'supervisor'));
  if (name === 'docker') return await openDocker(stateDirOf('docker', sandboxDir), supervisorPath, sandbox, say);
  return createBubblewrapProvider({ stateDir: sandboxDir, supervisorPath, guardTools: toolsGuard() });
}

/** Adds to the message and keeps the class: an error that a retry cannot fix stays one. */
function withRemedy(error: unknown, say: (reason: string) => string): unknown {
  if (error instanceof SandboxImpossible) return new SandboxImpossible(say(error.message), { cause: error });
  return error instanceof SandboxUnavailable ? new SandboxUnavailable(say(error.message), { cause: error }) : error;
}

/** Opens the provider that the home has chosen. If it does not work now, no other provider replaces it. */
async function openChosen(
  choice: SandboxChoice,
  { sandboxDir, sandbox, say }: Opened,
  withinMs: number,
): Promise<HostProvider> {
  const { provider } = choice;
  const other = provider === 'docker' ? 'bubblewrap' : 'docker';
  try {
    // A late trial is no failure: the machine was busy.
    if (provider === 'bubblewrap' && (await tryBubblewrap(withinMs)) === 'fails')
      throw new SandboxUnavailable('bubblewrap does not work');
    return await openProvider(provider, sandboxDir, sandbox, say);
  } catch (error) {
    const remedy =
      `run: npx longhaul doctor; to choose again, set LONGHAUL_SANDBOX=${other}, ` +
      `or remove ${choiceFile(sandboxDir)} when no sandbox of ${provider} runs`;
    throw withRemedy(
      error,
      (reason) =>
        `sandboxes of this home are made by ${describeChoice(choice)}, which does not work now: ${reason}; ${remedy}`,
    );
  }
}

/** Opens the fastest provider that works. */
async function openFastest({ sandboxDir, sandbox, say }: Opened, withinMs: number): Promise<HostProvider> {
  if ((await tryBubblewrap(withinMs)) === 'works') return await openProvider('bubblewrap', sandboxDir, sandbox, say);
  try {
    return await openProvider('docker', sandboxDir, sandbox, say);
  } catch (error) {
    throw withRemedy(
      error,
      (reason) => `no sandbox provider works here: bubblewrap does not work, and ${reason}; run: npx longhaul doctor`,
    );
  }
}

const agrees = (written: SandboxChoice | undefined, { sandbox }: Opened): boolean =>
  written !== undefined && (askedFor(sandbox) ?? written).provider === written.provider;

/** Opens the configured provider, else the fastest, and records it. Returns `undefined` if another process did so. */
async function choose(settings: Opened, withinMs: number): Promise<HostProvider | undefined> {
  const { sandboxDir, sandbox, say } = settings;
  const written = readChoice(sandboxDir);
  if (agrees(written, settings)) return undefined;
  const asked = askedFor(sandbox);
  if (written !== undefined && asked !== undefined)
    await leaveIdle(written, asked, sandboxDir, () => openProvider(written.provider, sandboxDir, { provider: 'auto' }));
  const opened =
    asked === undefined
      ? await openFastest(settings, withinMs)
      : await openProvider(asked.provider, sandboxDir, sandbox, say);
  writeChoice(sandboxDir, opened.name as ProviderName, asked);
  return opened;
}

/**
 * Opens the provider of this host's sandboxes; compiles the supervisor if the set-up has not done so. If several
 * processes start at once, one chooses and the others use its choice. `withinMs` bounds the trial of bubblewrap.
 * Errors: `SandboxUnavailable`, `SandboxImpossible`; `UserInputError` if the settings name another provider than the
 * home uses.
 */
export async function openSandboxProvider(settings: Opened, withinMs: number = TRIED_WITHIN_MS): Promise<HostProvider> {
  const { sandboxDir, sandbox, say } = settings;
  if (!agrees(readChoice(sandboxDir), settings)) {
    const opened = await withLock(
      `${sandboxDir}.lock`,
      () => undefined,
      () => choose(settings, withinMs),
    );
    if (opened !== undefined) return opened;
  }
  const written = readChoice(sandboxDir);
  if (written === undefined)
    throw new SandboxUnavailable(`${choiceFile(sandboxDir)} was removed while a worker started`);
  return askedFor(sandbox) === undefined
    ? await openChosen(written, settings, withinMs)
    : await openProvider(written.provider, sandboxDir, sandbox, say);
}

/** The same provider behind a warm pool, if its sandboxes take long to make. */
export async function openPooledProvider(
  { settings, log }: Pick<RoleContext, 'settings' | 'log'>,
  store: Store,
): Promise<WarmPool> {
  const provider = await openSandboxProvider({ ...settings, say: (line) => log.info(line) });
  const size = settings.sandbox.warm ?? WARM[provider.name as ProviderName];
  const onError = (error: unknown): void => log.warn({ error }, 'the warm pool could not be filled');
  return openWarmPool({ store, provider, host: settings.host, size, onError });
}

/** For a process that takes sandboxes from the warm pool that another process of this host fills. */
export const withoutPool = (context: RoleContext): RoleContext => ({
  ...context,
  settings: { ...context.settings, sandbox: { ...context.settings.sandbox, warm: 0 } },
});
