/**
 * Snapshots of sandboxes: the workspace and further folders, /tmp and /dev/shm, the shell's directory and exports, and
 * with the profile `swe` what was made in or removed from the image. Equal states have equal digests. What else a
 * sandbox may hold (processes, functions and variables of
 * its shell) is in no snapshot, so a sandbox that holds it has none. A restored sandbox has no journal: the results of
 * earlier calls are in the store and are not requested again.
 */

import { createHash } from 'node:crypto';
import { listChanges, removeAgain } from './image-changes.ts';
import {
  type Sandbox,
  SandboxImpossible,
  SandboxLost,
  type SandboxProvider,
  type SandboxSpec,
  type ShellState,
} from './sandbox.ts';
import {
  type Bounds,
  type Keep,
  OTHERS,
  OWN_FOLDER,
  ownPlaces,
  pack,
  type Places,
  run,
  unpack,
  unpackBy,
} from './snapshot-archive.ts';

/** What a snapshot has beside its archive. */
export interface SnapshotState {
  readonly shell: ShellState;
  /** Paths that the image has, and the sandbox has no more or has replaced (profile `swe`). */
  readonly removed?: readonly string[];
}

export interface Snapshot extends SnapshotState {
  /** Those of the archive, in their order. */
  readonly pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

const TIMEOUT_MS = 120_000;

/** The journal keeps it, so that a restored sandbox is not restored again after tools have acted in it. */
const RESTORED = { callId: 'longhaul:restored', path: '/tmp/.longhaul-restored', content: new Uint8Array(), note: '' };

/** Separates the parts of what the commands below print. */
const END = '--longhaul-end--';
/**
 * Prints what a snapshot does not hold of a shell, then its variables and which of them are exported. Builtins alone:
 * the policy's environment may break programs.
 */
const SHELL = [
  'builtin declare -F; builtin alias -p; builtin trap -p; builtin umask',
  'builtin compgen -v',
  'builtin compgen -e',
].join(`; builtin echo ${END}; `);
/** Variables that bash itself keeps. */
const OF_BASH = /^(?:BASH.*|COMP_.*|DIRSTACK|FUNCNAME|PIPESTATUS|OLDPWD|_)$/u;

const linesOf = (text: string | undefined): string[] => (text ?? '').split('\n').filter((line) => line !== '');

/** What a snapshot would lack of the shell that printed `said`. `plain`: what a new shell prints. */
function beyondExports(said: string, plain: string): string[] {
  const [held, variables, exported] = said.split(`${END}\n`).map(linesOf);
  const [usual, known] = plain.split(`${END}\n`).map(linesOf);
  const left = new Set([...(known ?? []), ...(exported ?? [])]);
  return [
    ...(held ?? []).filter((line) => !usual?.includes(line)),
    ...(variables ?? []).filter((name) => !left.has(name) && !OF_BASH.test(name)),
  ];
}

/**
 * Prints the pid of each process but the supervisor, the shell `$SHELL_PID`, this command, and what has no parent here.
 */
const PROCESSES = `for f in /proc/[0-9]*/stat; do
  read -r line 2>/dev/null <"$f" || continue
  pid=\${line%% *}; set -- \${line##*) }
  [ "$pid" = 1 ] || [ "$pid" = "$SHELL_PID" ] || [ "$pid" = $$ ] || [ "$2" = 0 ] || [ "$2" = $$ ] || echo "$pid"
done`;

/** Why a snapshot would lack something that the sandbox holds; `undefined` if it would not. */
async function lacking(sandbox: Sandbox, callId: string): Promise<string | undefined> {
  const ask = (name: string, command: string, fresh: boolean) =>
    sandbox.exec({ callId: `${callId}/${name}`, command, timeoutMs: TIMEOUT_MS, outputLimit: 64 << 10, fresh });
  const said = (await ask('shell', `builtin echo "$$"; ${SHELL}`, false)).output;
  const [shell = '', ...parts] = said.split('\n');
  if (!/^\d+$/u.test(shell)) return 'its shell does not answer';
  const more = beyondExports(parts.join('\n'), (await ask('plain', SHELL, true)).output);
  if (more.length > 0) return `its shell has more than exports: ${more.join(', ').slice(0, 200)}`;
  const left = (await ask('processes', `SHELL_PID=${shell}\n${PROCESSES}`, true)).output.trim();
  return left === '' ? undefined : `processes run in it: ${left.replaceAll('\n', ', ').slice(0, 200)}`;
}

/**
 * `callId` is for this time alone: nothing of it is read from the sandbox's journal again. `keep` gets the archive.
 * Returns a reason if a snapshot would lack something that the sandbox holds; else what it has beside its archive, and
 * the archive's length. Errors: `SandboxUnavailable` if it cannot be read, or not within `bounds`; those of `keep`.
 */
export async function takeSnapshot(
  sandbox: Sandbox,
  places: Places,
  callId: string,
  bounds: Bounds,
  keep: Keep,
): Promise<(SnapshotState & { readonly bytes: number }) | string> {
  if (sandbox.state === undefined) return 'its provider cannot restore one';
  const all = [...ownPlaces(places), ...OTHERS];
  if (all.some((path, i) => all.some((other, j) => i !== j && `${path}/`.startsWith(`${other}/`))))
    return 'its workspace overlaps /tmp or /dev/shm';
  // What a worker that died in the middle left would take the policy's room.
  await run(sandbox, `${callId}/leftovers`, `rm -rf ${OWN_FOLDER}`);
  const shell = await sandbox.state();
  const reason = await lacking(sandbox, callId);
  if (reason !== undefined) return reason;
  const folder = `${OWN_FOLDER}/${createHash('sha256').update(callId).digest('hex')}`;
  try {
    if (places.profile !== 'swe')
      return { bytes: await pack(sandbox, places, { callId, folder }, bounds, keep), shell };
    const listed = await listChanges(sandbox, places, { callId, folder });
    if (typeof listed === 'string') return listed;
    const { mine, removed } = listed;
    return { bytes: await pack(sandbox, places, { callId, folder, mine }, bounds, keep), shell, removed };
  } finally {
    await run(sandbox, `${callId}/drop`, `rm -rf ${folder}; rmdir ${OWN_FOLDER} || true`);
  }
}

/** True if the sandbox of this id lives, and was restored from a snapshot. */
export async function isRestored(provider: SandboxProvider, id: string): Promise<boolean> {
  try {
    const sandbox = await provider.connect(id);
    try {
      return (await sandbox.written(RESTORED.callId)) !== undefined;
    } finally {
      sandbox.close();
    }
  } catch (error) {
    if (error instanceof SandboxLost) return false;
    throw error;
  }
}

/**
 * Makes a new sandbox of `spec` in the state of the snapshot; the spec's files and set-up are ignored. `check` runs
 * before the sandbox counts as restored. A second call with the same id does not restore again. Errors: those of
 * `create` and `check`; `SandboxImpossible` if the snapshot does not fit.
 */
export async function restoreSnapshot(
  provider: SandboxProvider,
  spec: SandboxSpec,
  snapshot: Snapshot,
  check: (sandbox: Sandbox) => Promise<void> = () => Promise.resolve(),
): Promise<Sandbox> {
  const { setup: _, ...bare } = spec;
  const sandbox = await provider.create({ ...bare, files: [] });
  try {
    if (sandbox.resume === undefined) throw new SandboxImpossible(`sandboxes of ${provider.name} cannot be restored`);
    if ((await sandbox.written(RESTORED.callId)) !== undefined) return sandbox;
    // Folders of the image may be closed to their owner.
    const clear = `${spec.profile === 'swe' ? 'chmod -R u+rwX . && ' : ''}find . -mindepth 1 -delete`;
    await unpackBy(sandbox, 'clear', clear);
    await removeAgain(sandbox, snapshot.removed ?? []);
    await unpack(sandbox, snapshot.pieces);
    await sandbox.resume(snapshot.shell);
    await check(sandbox);
    await sandbox.write(RESTORED);
    await run(sandbox, 'longhaul:tidy', `rm ${RESTORED.path}`);
    return sandbox;
  } catch (error) {
    sandbox.close();
    await provider.destroy(spec.id);
    throw error;
  }
}
