/**
 * The sandbox provider of this host: the one that is configured, else the fastest that works. Every worker of a host
 * comes to the same choice, and records of one kind of sandbox never mix with another's.
 */

import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cacheDirectory } from '#setup/paths.mjs';
import { createBubblewrapProvider } from '../sandboxes/bubblewrap/provider.ts';
import type { HostProvider } from '../sandboxes/supervised/provider.ts';
import { SandboxUnavailable } from '../sandboxes/sandbox.ts';
import { buildSupervisor } from '../sandboxes/supervisor/build.ts';
import { openWarmPool, type WarmPool } from '../sandboxes/warm-pool.ts';
import type { Store } from '../store/store.ts';
import type { SandboxSettings, WorkerSettings } from './settings.ts';

/** A container takes half a second to make; a sandbox of bubblewrap is there as soon as it is asked for. */
const WARM = { bubblewrap: 0, docker: 4 } as const;
const TRIED_WITHIN_MS = 10_000;

export type ProviderName = keyof typeof WARM;

/** Installed is not enough: some machines forbid the namespaces that it needs. */
async function bubblewrapWorks(): Promise<boolean> {
  return await promisify(execFile)('bwrap', ['--ro-bind', '/', '/', '--unshare-all', 'true'], { timeout: TRIED_WITHIN_MS }).then(
    () => true,
    () => false,
  );
}

/** An image or a runtime of Docker's is never left out by a choice of something else. */
async function choose({ provider, image, runtime }: SandboxSettings): Promise<ProviderName> {
  if (provider !== 'auto') return provider;
  return image === undefined && runtime === undefined && (await bubblewrapWorks()) ? 'bubblewrap' : 'docker';
}

async function openDocker(stateDir: string, supervisorPath: string, { image, runtime }: SandboxSettings): Promise<HostProvider> {
  // Only where it is used: the client takes as long to load as a sandbox to make.
  const { createDockerProvider } = await import('../sandboxes/docker/provider.ts');
  return await createDockerProvider({
    stateDir,
    supervisorPath,
    cache: cacheDirectory(process.env),
    onProgress: (line) => console.error(line),
    ...(image === undefined ? {} : { image }),
    ...(runtime === undefined ? {} : { runtime }),
  });
}

/** The provider of this name, whatever is configured. Errors: `SandboxUnavailable`, `SandboxImpossible`. */
export async function openProvider(name: ProviderName, sandboxDir: string, sandbox: SandboxSettings): Promise<HostProvider> {
  const supervisorPath = await buildSupervisor(join(cacheDirectory(process.env), 'supervisor'));
  if (name === 'docker') return await openDocker(`${sandboxDir}-docker`, supervisorPath, sandbox);
  return createBubblewrapProvider({ stateDir: sandboxDir, supervisorPath });
}

/** The provider over this host's sandboxes; the supervisor is compiled where the set-up has not done so. */
export async function openSandboxProvider({ sandboxDir, sandbox }: Pick<WorkerSettings, 'sandboxDir' | 'sandbox'>): Promise<HostProvider> {
  const name = await choose(sandbox);
  try {
    return await openProvider(name, sandboxDir, sandbox);
  } catch (error) {
    if (sandbox.provider !== 'auto' || !(error instanceof SandboxUnavailable)) throw error;
    throw new SandboxUnavailable(`nothing isolates sandboxes here: bubblewrap does not work, and ${error.message}; see: npx longhaul doctor`);
  }
}

/** The same, out of what stands ready where a sandbox takes long to make. */
export async function openPooledProvider(settings: WorkerSettings, store: Store): Promise<WarmPool> {
  const provider = await openSandboxProvider(settings);
  const size = settings.sandbox.warm ?? WARM[provider.name as ProviderName];
  const onError = (error: unknown): void => console.warn('the warm pool:', error);
  return openWarmPool({ store, provider, host: settings.host, size, onError });
}

/** For a process that takes what another one of this host keeps warm. */
export const withoutPool = (settings: WorkerSettings): WorkerSettings => ({ ...settings, sandbox: { ...settings.sandbox, warm: 0 } });
