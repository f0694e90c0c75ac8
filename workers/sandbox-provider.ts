/**
 * The sandbox provider of this host: the one that its home has chosen, which is the one that was configured, else the
 * fastest that worked. Records of one kind of sandbox never mix with another's.
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

/** A container takes half a second to make; a sandbox of bubblewrap is there as soon as it is asked for. */
const WARM: Readonly<Record<ProviderName, number>> = { bubblewrap: 0, docker: 4 };
/** It takes some milliseconds; a machine that is busy may take seconds. */
const TRIED_WITHIN_MS = 30_000;

interface Opened extends Pick<WorkerSettings, 'sandboxDir' | 'sandbox'> {
  /** What takes long, a line at a time; default: to stderr. */
  readonly say?: (line: string) => void;
}

const toStderr = (line: string): void => console.error(line);
type Trial = 'works' | 'fails' | 'late';

/** Installed is not enough: some machines forbid the namespaces that it needs. */
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
  // Only where it is used: the client takes as long to load as a sandbox to make.
  const { createDockerProvider } = await import('../sandboxes/docker/provider.ts');
  return await createDockerProvider({
    stateDir,
    supervisorPath,
    cache: cacheDirectory(process.env),
    onProgress,
    ...(image === undefined ? {} : { image }),
    ...(runtime === undefined ? {} : { runtime }),
  });
}

/** The provider of this name, whatever is configured. Errors: `SandboxUnavailable`, `SandboxImpossible`. */
export async function openProvider(
  name: ProviderName,
  sandboxDir: string,
  sandbox: SandboxSettings,
  say: (line: string) => void = toStderr,
): Promise<HostProvider> {
  const supervisorPath = await buildSupervisor(join(cacheDirectory(process.env), 'supervisor'));
  if (name === 'docker') return await openDocker(stateDirOf('docker', sandboxDir), supervisorPath, sandbox, say);
  return createBubblewrapProvider({ stateDir: sandboxDir, supervisorPath });
}

/** The same class with more to say: where trying again is of no use, it stays so. */
function told(error: unknown, tell: (reason: string) => string): unknown {
  if (error instanceof SandboxImpossible) return new SandboxImpossible(tell(error.message), { cause: error });
  return error instanceof SandboxUnavailable ? new SandboxUnavailable(tell(error.message), { cause: error }) : error;
}

/** What the home has chosen. Where that is impossible now, nothing else takes its place. */
async function openChosen(
  choice: SandboxChoice,
  { sandboxDir, sandbox, say }: Opened,
  withinMs: number,
): Promise<HostProvider> {
  const { provider } = choice;
  const other = provider === 'docker' ? 'bubblewrap' : 'docker';
  try {
    // One that is late was kept waiting by the machine.
    if (provider === 'bubblewrap' && (await tryBubblewrap(withinMs)) === 'fails')
      throw new SandboxUnavailable('bubblewrap does not work');
    return await openProvider(provider, sandboxDir, sandbox, say);
  } catch (error) {
    const remedy = `see: npx longhaul doctor; to choose anew, set LONGHAUL_SANDBOX=${other}, or remove ${choiceFile(sandboxDir)} when no sandbox of ${provider} lives`;
    throw told(
      error,
      (reason) =>
        `sandboxes of this home are made by ${describeChoice(choice)}, and that is impossible now: ${reason}; ${remedy}`,
    );
  }
}

/** The fastest that works. */
async function openFastest({ sandboxDir, sandbox, say }: Opened, withinMs: number): Promise<HostProvider> {
  if ((await tryBubblewrap(withinMs)) === 'works') return await openProvider('bubblewrap', sandboxDir, sandbox, say);
  try {
    return await openProvider('docker', sandboxDir, sandbox, say);
  } catch (error) {
    throw told(
      error,
      (reason) => `nothing isolates sandboxes here: bubblewrap does not work, and ${reason}; see: npx longhaul doctor`,
    );
  }
}

const agrees = (written: SandboxChoice | undefined, { sandbox }: Opened): boolean =>
  written !== undefined && (askedFor(sandbox) ?? written).provider === written.provider;

/** Opens what the settings name, else the fastest, and writes down what it was. Nothing, where another process has done so. */
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
 * The provider over this host's sandboxes; the supervisor is compiled where the set-up has not done so. Of several
 * processes that start at once one chooses, and the others take that. `withinMs` bounds a trial of bubblewrap.
 * Errors: `SandboxUnavailable`, `SandboxImpossible`; `UserInputError` where what is asked for is not what is in use.
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

/** The same, out of what stands ready where a sandbox takes long to make. */
export async function openPooledProvider(
  { settings, log }: Pick<RoleContext, 'settings' | 'log'>,
  store: Store,
): Promise<WarmPool> {
  const provider = await openSandboxProvider({ ...settings, say: (line) => log.info(line) });
  const size = settings.sandbox.warm ?? WARM[provider.name as ProviderName];
  const onError = (error: unknown): void => log.warn({ error }, 'the warm pool could not be filled');
  return openWarmPool({ store, provider, host: settings.host, size, onError });
}

/** For a process that takes what another one of this host keeps warm. */
export const withoutPool = (context: RoleContext): RoleContext => ({
  ...context,
  settings: { ...context.settings, sandbox: { ...context.settings.sandbox, warm: 0 } },
});
