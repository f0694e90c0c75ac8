/** The sandboxes of a home's current provider: the home cannot switch to another provider while one of them is live. */

import { UserInputError } from '../protocol/user-input-error.ts';
import { endSandbox } from '../sandboxes/bubblewrap/end.ts';
import type { HostProvider } from '../sandboxes/supervised/provider.ts';
import { hasEnded, listFolders } from '../sandboxes/supervised/state.ts';
import { type Asked, describeChoice, type SandboxChoice, stateDirOf } from './sandbox-choice.ts';

interface Remains {
  readonly live: readonly string[];
  clear(): Promise<unknown>;
}

/** Found by their processes: bubblewrap itself may be missing now. */
function remainsOfBubblewrap(stateDir: string): Remains {
  const folders = listFolders(stateDir);
  const live = folders.filter(({ folder }) => !hasEnded(folder)).map(({ id }) => id);
  return { live, clear: async () => Promise.all(folders.map(({ folder }) => endSandbox(folder))) };
}

/** Without containers in this home, the daemon is not needed. */
async function remainsInDocker(stateDir: string, open: () => Promise<HostProvider>): Promise<Remains> {
  if (listFolders(stateDir).length === 0) return { live: [], clear: () => Promise.resolve() };
  const provider = await open();
  const ended = new Set(await provider.ended());
  const live = (await provider.list()).filter((id) => !ended.has(id));
  return { live, clear: () => provider.sweep(() => false) };
}

/**
 * Removes the ended sandboxes of the chosen provider; `open` opens it.
 * Errors: `UserInputError` if one of its sandboxes is live, or if that cannot be found out.
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
      `cannot find out whether its sandboxes in ${dir} are live ` +
        `(${error instanceof Error ? error.message : String(error)}); fix that, or remove this folder`,
    );
  });
  const { live } = remains;
  if (live.length > 0)
    throw refused(
      `${live.length} of its sandboxes are live ` +
        `(${live.slice(0, 3).join(', ')}${live.length > 3 ? ', …' : ''}): cancel what they belong to, ` +
        `or wait for its end (sandboxes that nobody renews end by themselves), or set LONGHAUL_SANDBOX=${provider}`,
    );
  await remains.clear();
}
