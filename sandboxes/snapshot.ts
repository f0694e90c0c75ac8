/**
 * Snapshots of sandboxes: the workspace and further folders, /tmp and /dev/shm, the shell's directory and exports, and
 * with the profile `swe` what was made in or removed from the image. Equal states have equal digests. What else a
 * sandbox may hold (processes, functions and variables of
 * its shell) is in no snapshot, so a sandbox that holds it has none. A restored sandbox has no journal: the results of
 * earlier calls are in the store and are not requested again.
 */

import { dropLists, listChanges, MINE, OWN_LISTS, removeAgain } from './image-changes.ts';
import {
  type Sandbox,
  SandboxImpossible,
  SandboxLost,
  type SandboxProvider,
  type SandboxSpec,
  SandboxUnavailable,
  type ShellState,
} from './sandbox.ts';

export interface Snapshot {
  /** A compressed tar with paths from the root. */
  readonly archive: Uint8Array;
  readonly shell: ShellState;
  /** Paths that the image has, and the sandbox has no more or has replaced (profile `swe`). */
  readonly removed?: readonly string[];
}

/** What decides which places of a sandbox can be written. */
type Places = Pick<SandboxSpec, 'workdir' | 'folders' | 'profile'>;

const TIMEOUT_MS = 120_000;
/** Bytes of a piece before base64. A call's output is limited to 8 MiB. */
const PIECE = 6_000_000;
/**
 * A larger archive is not kept: its pieces are read one after the other, each from the archive's start, and it is
 * written into a new sandbox in one frame of 64 MiB at most.
 */
export const MOST_BYTES = 10 * PIECE;
const ARCHIVE = '.longhaul-restore.tgz';
/** What is writable beside the workspace. */
const OTHERS = ['/tmp', '/dev/shm'];
/** Equal files give equal bytes: sorted by name, without owners, access and change times. Sparse files stay sparse. */
const TAR =
  'tar --sparse --sort=name --format=posix --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime ' +
  '--owner=0 --group=0 --numeric-owner -cf -';

/** The journal keeps it, so that a restored sandbox is not restored again after tools have acted in it. */
const RESTORED = { callId: 'longhaul:restored', path: '/tmp/.longhaul-restored', content: new Uint8Array(), note: '' };

/** Beside /tmp and /dev/shm, which belong to the sandbox itself. */
const ownPlaces = ({ workdir, folders = [] }: Places): readonly string[] => [workdir, ...folders];
/** Leaves out these members, and what is below them. */
const exactly = (paths: readonly string[]): string =>
  ['--anchored --no-wildcards', ...paths.map((path) => `--exclude=${path}`)].join(' ');

const relative = (path: string): string => path.slice(1);
const quoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

async function run(sandbox: Sandbox, callId: string, command: string): Promise<string> {
  const call = { callId, command, timeoutMs: TIMEOUT_MS, outputLimit: 8 << 20, fresh: true };
  const { exitCode, signal, output, timedOut, outOfMemory } = await sandbox.exec(call);
  if (exitCode === 0) return output;
  const how = timedOut ? 'timed out' : outOfMemory ? 'ran out of memory' : `ended with ${exitCode ?? signal}`;
  throw new SandboxUnavailable(`snapshot of ${sandbox.id}: ${how}: ${output.slice(-200)}`);
}

/** Reads the archive in pieces from a command's output, so it needs no disk space in the sandbox. */
async function pack(sandbox: Sandbox, places: Places, callId: string): Promise<Buffer> {
  const members = [...ownPlaces(places), ...OTHERS].map((path) => quoted(relative(path))).join(' ');
  const ofImage = `--no-recursion --null -T ${MINE}`;
  const what = places.profile === 'swe' ? `${exactly([OWN_LISTS])} ${members} ${ofImage}` : members;
  const pieces: Buffer[] = [];
  for (let piece = 0; ; piece += 1) {
    // Exit code 1: a background process changed a file during the read. The archive still holds a state that it had.
    const tar = `{ ${TAR} -C / ${what} 2>/dev/null; [ $? -le 1 ]; } | gzip -n -1`;
    const cut = `tail -c +${piece * PIECE + 1} | head -c ${PIECE} | base64 -w 0`;
    const said = await run(
      sandbox,
      `${callId}/${piece}`,
      `${tar} | ${cut}; s=("\${PIPESTATUS[@]}"); echo " \${s[0]} \${s[1]}"; [ "\${s[-1]}" = 0 ]`,
    );
    const [, text = '', packed, zipped] = /^(\S*) (\d+) (\d+)\s*$/u.exec(said) ?? [];
    const bytes = Buffer.from(text, 'base64');
    pieces.push(bytes);
    // Except for the last piece, `head` ends first and breaks the pipe; that is not a failure.
    if (bytes.length === PIECE && pieces.length * PIECE <= MOST_BYTES) continue;
    if ((pieces.length - 1) * PIECE + bytes.length <= MOST_BYTES && packed === '0' && zipped === '0')
      return Buffer.concat(pieces);
    throw new SandboxUnavailable(
      `snapshot of ${sandbox.id}: not all of it could be read, or it has more than ${MOST_BYTES} bytes`,
    );
  }
}

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
 * `callId` names this snapshot in the sandbox's journal: the same id returns the same snapshot. Returns a reason if a
 * snapshot would lack something that the sandbox holds. Errors: `SandboxUnavailable` if it cannot be read.
 */
export async function takeSnapshot(sandbox: Sandbox, places: Places, callId: string): Promise<Snapshot | string> {
  if (sandbox.state === undefined) return 'its provider cannot restore one';
  const all = [...ownPlaces(places), ...OTHERS];
  if (all.some((path, i) => all.some((other, j) => i !== j && `${path}/`.startsWith(`${other}/`))))
    return 'its workspace overlaps /tmp or /dev/shm';
  const shell = await sandbox.state();
  const reason = await lacking(sandbox, callId);
  if (reason !== undefined) return reason;
  if (places.profile !== 'swe') return { archive: await pack(sandbox, places, callId), shell };
  try {
    const removed = await listChanges(sandbox, places, callId);
    return typeof removed === 'string' ? removed : { archive: await pack(sandbox, places, callId), shell, removed };
  } finally {
    await dropLists(sandbox, callId);
  }
}

/** Errors: `SandboxImpossible` if the command fails: the snapshot does not fit the sandbox. */
async function unpackBy(sandbox: Sandbox, name: string, command: string): Promise<void> {
  const call = { callId: `longhaul:${name}`, command, timeoutMs: TIMEOUT_MS, outputLimit: 8 << 10, fresh: true };
  const { exitCode, output } = await sandbox.exec(call);
  if (exitCode !== 0)
    throw new SandboxImpossible(`snapshot cannot be restored into ${sandbox.id}: ${name}: ${output.slice(-200)}`);
}

async function unpack(sandbox: Sandbox, places: Places, { archive, removed = [] }: Snapshot): Promise<void> {
  const isSwe = places.profile === 'swe';
  // With `swe`, /tmp is in memory and small beside the image's own files.
  const path = `${isSwe ? places.workdir : '/tmp'}/${ARCHIVE}`;
  // Folders of the image may be closed to their owner.
  await unpackBy(sandbox, 'clear', `${isSwe ? 'chmod -R u+rwX . && ' : ''}find . -mindepth 1 -delete`);
  await removeAgain(sandbox, removed);
  const { error } = await sandbox.write({ callId: 'longhaul:restore', path, content: archive, note: '' });
  if (error !== undefined)
    throw new SandboxImpossible(
      `snapshot of ${archive.length} bytes cannot be restored into ${sandbox.id}: ${error} in ${path}`,
    );
  const file = quoted(path);
  const members = ownPlaces(places).map((place) => quoted(relative(place)));
  const what = isSwe ? exactly(OTHERS.map(relative)) : members.join(' ');
  const into = (place: string, names: number) =>
    `tar -xzpf ${file} -C ${place} --strip-components=${names} ${relative(place)}`;
  // /tmp and /dev/shm themselves belong to the sandbox, which refuses another mode for them.
  const all = [`tar -xzpf ${file} -C / ${what}`, into('/tmp', 1), into('/dev/shm', 2), `rm -f ${file}`];
  await unpackBy(sandbox, 'unpack', all.join(' && '));
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
    await unpack(sandbox, spec, snapshot);
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
