/** The sandbox provider of this host. */

import { homedir } from 'node:os';
import { join } from 'node:path';
import { createBubblewrapProvider } from '../sandboxes/bubblewrap/provider.ts';
import type { SandboxProvider } from '../sandboxes/sandbox.ts';
import { buildSupervisor } from '../sandboxes/supervisor/build.ts';
import type { WorkerSettings } from './settings.ts';

/** The provider over this host's sandboxes; the supervisor is compiled where the set-up has not done so. */
export async function openSandboxProvider(settings: WorkerSettings): Promise<SandboxProvider> {
  const cache = process.env['LONGHAUL_CACHE'] ?? join(homedir(), '.cache', 'longhaul');
  const supervisorPath = await buildSupervisor(join(cache, 'supervisor'));
  return createBubblewrapProvider({ stateDir: settings.sandboxDir, supervisorPath });
}
