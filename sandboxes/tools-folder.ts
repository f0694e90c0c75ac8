/**
 * A folder of this host that sandboxes see read-only at `/opt/tools`, such as the packages of an agent. It is mounted
 * by its real path, and only if the process that makes the sandbox allows that path.
 */

import { realpathSync, statSync } from 'node:fs';
import { dirname, isAbsolute } from 'node:path';

import { SandboxImpossible, type SandboxSpec } from './sandbox.ts';

/** Where sandboxes see the folder. */
export const TOOLS_AT = '/opt/tools';

/** Throws if sandboxes may not see `path`, whose links are resolved. The error's message is the reason. */
export type ToolsGuard = (path: string) => void;

const refused = (path: string, remedy: string): SandboxImpossible =>
  new SandboxImpossible(`toolsFolder ${path}: ${remedy}`);

function realFolder(path: string): string {
  try {
    const real = realpathSync(path);
    if (statSync(real).isDirectory()) return real;
  } catch {
    // Refused below, as what is no folder.
  }
  throw refused(path, 'give a folder that is there on each host that makes sandboxes');
}

/** The first of the folder and those above it that other users cannot use. */
function closedTo(path: string): string | undefined {
  const mode = statSync(path).mode;
  const above = dirname(path);
  if (above === path) return undefined;
  return (mode & 0o001) === 0 ? path : closedTo(above);
}

/**
 * The spec with the real path of its tools folder. `asOther`: sandboxes run as another user than this process. Errors:
 * `SandboxImpossible` with the field, its value and the remedy.
 */
export function withRealTools(spec: SandboxSpec, guard: ToolsGuard | undefined, asOther: boolean): SandboxSpec {
  const { toolsFolder: path, workdir, folders = [] } = spec;
  if (path === undefined) return spec;
  if (!isAbsolute(path) || /[\0\n]/u.test(path)) throw refused(path, 'give an absolute path');
  if (workdir === '/opt' || `${workdir}/`.startsWith(`${TOOLS_AT}/`) || folders.includes('/opt'))
    throw refused(path, `it is at ${TOOLS_AT}: give a workdir and folders elsewhere, such as /work`);
  if (guard === undefined) throw refused(path, 'sandboxes see no folder of this host here; leave it out');
  const real = realFolder(path);
  try {
    guard(real);
  } catch (error) {
    throw new SandboxImpossible(error instanceof Error ? error.message : String(error), { cause: error });
  }
  const closed = asOther ? closedTo(real) : undefined;
  if (closed !== undefined)
    throw refused(path, `sandboxes run as another user: let it enter ${closed} (chmod o+x), and read the files`);
  return { ...spec, toolsFolder: real };
}
