/**
 * The archive of a snapshot: a tar of what can be written in a sandbox, compressed and carried in pieces, so that
 * neither a worker nor a sandbox ever holds more than one of them. Equal states have equal pieces.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { type Sandbox, SandboxImpossible, type SandboxSpec, SandboxUnavailable } from './sandbox.ts';

/** What decides which places of a sandbox can be written. */
export type Places = Pick<SandboxSpec, 'workdir' | 'folders' | 'profile' | 'toolsFolder'>;

/** Receives the pieces in their order. */
export type Keep = (piece: Uint8Array) => Promise<void>;

export interface Bounds {
  /** Bytes of all pieces together. */
  readonly maxBytes: number;
  /** Milliseconds of the clock in which all pieces must be read. Default: three minutes. */
  readonly withinMs?: number;
}

/** Of all sandboxes of a task together, if nothing else is set. */
export const SNAPSHOT_MIB = 500;

/** What a snapshot needs for itself while it is taken. It is in no archive. A folder in it for each time. */
export const OWN_FOLDER = '/tmp/.longhaul-snapshot';
/** What is writable beside the workspace. They belong to the sandbox itself: archives hold what is in them. */
export const OTHERS = ['/tmp', '/dev/shm'];

const CALL_MS = 120_000;
export const PACK_MS = 180_000;
const UNPACK_MS = 600_000;
const LOOK_EACH_MS = 20;
/** Bytes of the tar that are read at once, before they are compressed; a full sandbox still gives so many. */
const MOST = 64_000_000;
const LEAST = 65_536;
/** Bytes of a piece. A read has at most 16 MiB. */
const PIECE = 16_000_000;
const DIGITS = 2;
/** The last bytes of what gzip writes: the length before. */
const LENGTH_BYTES = 4;
/** Where a new sandbox gets a piece. */
const PIECE_AT = '/tmp/.longhaul-restore.gz';
/** Equal files give equal bytes: sorted by name, without owners, access and change times. Sparse files stay sparse. */
const TAR =
  'tar --sparse --sort=name --format=posix --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime ' +
  '--owner=0 --group=0 --numeric-owner -cf -';

/** Beside /tmp and /dev/shm. */
export const ownPlaces = ({ workdir, folders = [] }: Places): readonly string[] => [workdir, ...folders];

const relative = (path: string): string => path.slice(1);
export const quoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;

export async function run(sandbox: Sandbox, callId: string, command: string): Promise<string> {
  const call = { callId, command, timeoutMs: CALL_MS, outputLimit: 64 << 10, fresh: true };
  const { exitCode, signal, output, timedOut, outOfMemory } = await sandbox.exec(call);
  if (exitCode === 0) return output;
  const how = timedOut ? 'timed out' : outOfMemory ? 'ran out of memory' : `ended with ${exitCode ?? signal}`;
  throw new SandboxUnavailable(`snapshot of ${sandbox.id}: ${how}: ${output.slice(-200)}`);
}

/** Writes the tar to stdout. `mine`: a list of further members, relative to the root. */
function tarOf(places: Places, mine: string | undefined): string {
  const inOthers = `find ${OTHERS.map(relative).join(' ')} -mindepth 1 -maxdepth 1 ! -path ${relative(OWN_FOLDER)}`;
  const members = ownPlaces(places).map((path) => quoted(relative(path)));
  const ofImage = mine === undefined ? '' : `--no-recursion -T ${mine}`;
  // Exit code 1: a background process changed a file during the read. The archive still holds a state that it had.
  return (
    `cd / && ${inOthers} -print0 | LC_ALL=C sort -z | ` +
    `{ ${TAR} ${members.join(' ')} --null -T - ${ofImage} 2>/dev/null; [ $? -le 1 ]; }`
  );
}

interface Packing {
  readonly callId: string;
  /** For this time alone. */
  readonly folder: string;
  /** A list of further members. */
  readonly mine?: string | undefined;
}

/** Bytes of the tar to read at once: half of the room, since as much is free when a new sandbox has nearly all. */
async function bytesAtOnce(sandbox: Sandbox, { callId, folder }: Packing): Promise<number> {
  const room = `mkdir -p ${folder} && df -B1 --output=avail ${folder} | tail -n 1`;
  return Math.max(LEAST, Math.min(MOST, Math.floor(Number(await run(sandbox, `${callId}/room`, room)) / 2)));
}

/**
 * Reads the archive part by part. Each part is cut out of a tar that is made anew, and leaves the sandbox in pieces, so
 * nothing has to hold all of it. Returns how many bytes the pieces have. Errors: `SandboxUnavailable` if not all of it
 * can be read within the bounds; those of `keep`.
 */
export async function pack(
  sandbox: Sandbox,
  places: Places,
  packing: Packing,
  { maxBytes, withinMs = PACK_MS }: Bounds,
  keep: Keep,
): Promise<number> {
  const failed = (what: string) => new SandboxUnavailable(`snapshot of ${sandbox.id}: ${what}`);
  const deadline = Date.now() + withinMs;
  const at = `${packing.folder}/piece.`;
  const size = await bytesAtOnce(sandbox, packing);
  let bytes = 0;
  for (let part = 0; ; part += 1) {
    const split = `split -d -a ${DIGITS} -b ${PIECE} - ${at}`;
    const cut = `tail -c +${part * size + 1} | head -c ${size} | gzip -n -1 | ${split}`;
    const ended = 's=("${PIPESTATUS[@]}"); echo "${s[*]}"; [ "${s[-2]} ${s[-1]}" = "0 0" ]';
    const command = `rm -f ${at}*; ${tarOf(places, packing.mine)} | ${cut}; ${ended}`;
    const statuses = (await run(sandbox, `${packing.callId}/${part}`, command)).trim().split(' ').slice(0, 3);
    let end = Buffer.alloc(0);
    for (let piece = 0; ; piece += 1) {
      const read = await sandbox.read(`${at}${String(piece).padStart(DIGITS, '0')}`, PIECE);
      if (read.kind === 'missing' && piece > 0) break;
      if (read.kind !== 'file') throw failed('a piece of it cannot be read');
      bytes += read.content.length;
      if (bytes > maxBytes) throw failed(`it has more than ${maxBytes} bytes`);
      await keep(read.content);
      end = Buffer.concat([end, read.content.subarray(-LENGTH_BYTES)]).subarray(-LENGTH_BYTES);
    }
    if (end.length < LENGTH_BYTES) throw failed('a part of it cannot be read');
    if (end.readUInt32LE() < size) {
      // Before the last part, `head` ends first and breaks the pipe; that is not a failure.
      if (statuses.some((status) => status !== '0')) throw failed('not all of it could be read');
      return bytes;
    }
    if (Date.now() > deadline) throw failed(`it cannot be read within ${withinMs / 1000} s`);
  }
}

/** Errors: `SandboxImpossible` if the command fails: the snapshot does not fit the sandbox. */
export async function unpackBy(sandbox: Sandbox, name: string, command: string, timeoutMs = CALL_MS): Promise<void> {
  const call = { callId: `longhaul:${name}`, command, timeoutMs, outputLimit: 8 << 10, fresh: true };
  const { exitCode, output } = await sandbox.exec(call);
  if (exitCode !== 0)
    throw new SandboxImpossible(`snapshot cannot be restored into ${sandbox.id}: ${name}: ${output.slice(-200)}`);
}

/** Reads pieces as they come, until there is a name beside the last one. */
const UNPACK = [
  'set -o pipefail',
  `{ until [ -e ${PIECE_AT}.end ]; do`,
  `  if [ -e ${PIECE_AT} ]; then cat ${PIECE_AT} && rm ${PIECE_AT} || exit; else sleep 0.02; fi`,
  'done; } |',
  `tar -xzpf - -C / && rm -f ${PIECE_AT}.end`,
].join('\n');

/** Writes a piece, and returns after it was read, or after `isOver`. */
async function hand(sandbox: Sandbox, piece: Uint8Array, callId: string, isOver: () => boolean): Promise<void> {
  const { error } = await sandbox.write({ callId, path: PIECE_AT, content: piece, note: '' });
  if (error !== undefined)
    throw new SandboxImpossible(`snapshot cannot be restored into ${sandbox.id}: ${error} in ${PIECE_AT}`);
  while (!isOver() && (await sandbox.read(PIECE_AT, 0)).kind !== 'missing') await sleep(LOOK_EACH_MS);
}

/** Unpacks the pieces into a new sandbox. Errors: `SandboxImpossible` if they do not fit; those of `pieces`. */
export async function unpack(
  sandbox: Sandbox,
  pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): Promise<void> {
  let isOver = false;
  const unpacking = unpackBy(sandbox, 'unpack', UNPACK, UNPACK_MS).finally(() => {
    isOver = true;
  });
  // It is awaited below, after the pieces: until then its failure is no error of its own.
  unpacking.catch(() => undefined);
  let number = 0;
  for await (const piece of pieces) {
    if (isOver) break;
    await hand(sandbox, piece, `longhaul:restore/${number}`, () => isOver);
    number += 1;
  }
  const end = { callId: 'longhaul:restore/end', path: `${PIECE_AT}.end`, content: new Uint8Array(), note: '' };
  if (!isOver) await sandbox.write(end);
  await unpacking;
}
