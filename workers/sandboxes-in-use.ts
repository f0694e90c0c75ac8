/** The sandboxes that a home leaves when another kind is asked for: while one of them lives, the home cannot turn from them. */

import { UserInputError } from '../protocol/user-input-error.ts';
import { endSandbox } from '../sandboxes/bubblewrap/end.ts';
import type { HostProvider } from '../sandboxes/supervised/provider.ts';
import { hasEnded, listFolders } from '../sandboxes/supervised/state.ts';
import { type Asked, describeChoice, type SandboxChoice, stateDirOf } from './sandbox-choice.ts';

interface Remains {
  readonly live: readonly string[];
  clear(): Promise<unknown>;
}

/** By their processes: bubblewrap itself may be gone. */
function remainsOfBubblewrap(stateDir: string): Remains {
  const folders = listFolders(stateDir);
  const live = folders.filter(({ folder }) => !hasEnded(folder)).map(({ id }) => id);
  return { live, clear: async () => Promise.all(folders.map(({ folder }) => endSandbox(folder))) };
}

/** A home without containers asks no daemon. */
async function remainsInDocker(stateDir: string, open: () => Promise<HostProvider>): Promise<Remains> {
  if (listFolders(stateDir).length === 0) return { live: [], clear: () => Promise.resolve() };
  const provider = await open();
  const ended = new Set(await provider.ended());
  const live = (await provider.list()).filter((id) => !ended.has(id));
  return { live, clear: () => provider.sweep(() => false) };
}

/**
 * Clears away what has ended of the kind that was chosen; `open` opens its provider.
 * Errors: `UserInputError` where a sandbox of that kind lives, or nobody can tell.
 */
export async function leaveIdle(
  written: SandboxChoice,
  { setting, value }: Asked,
  sandboxDir: string,
  open: () => Promise<HostProvider>,
): Promise<void> {
  const { provider } = written;
  const dir = stateDirOf(provider, sandboxDir);
  const refused = (why: string) =>
    new UserInputError(setting, value, `this home has ${describeChoice(written)}, and ${why}`);
  const remains = await (
    provider === 'docker' ? remainsInDocker(dir, open) : Promise.resolve(remainsOfBubblewrap(dir))
  ).catch((error: unknown) => {
    throw refused(
      `whether those in ${dir} live cannot be told (${error instanceof Error ? error.message : String(error)}); mend that, or remove this folder`,
    );
  });
  const { live } = remains;
  if (live.length > 0)
    throw refused(
      `${live.length} of its sandboxes live (${live.slice(0, 3).join(', ')}${live.length > 3 ? ', …' : ''}): cancel what they belong to, or wait for it (what nobody renews ends by itself), or set LONGHAUL_SANDBOX=${provider}`,
    );
  await remains.clear();
}
