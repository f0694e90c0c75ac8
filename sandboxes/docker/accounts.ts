/**
 * Which user a sandbox's processes are, inside of its container and on the host: one of its own, since the kernel counts
 * much by user (inotify, pending signals, pages of pipes, keys), and what one sandbox takes of that is not another's.
 * Inside it is known as the agent, beside the users that the image knows.
 */

import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import type Docker from 'dockerode';

import { sandboxEtc } from '../supervised/runtime.ts';
import { type Engine, statusOf, within } from './engine.ts';
import { removeContainer } from './record.ts';

/** Above all that a machine gives to its own users, below what 32 bits with a sign hold. */
const WIDE = { first: 2 ** 30, count: 2 ** 30 } as const;
/** What a daemon has whose containers' users are others outside: 65,536 at least. */
const NARROW = { first: 10_000, count: 50_000 } as const;

/**
 * Follows from the sandbox's id, so that nobody keeps count of those that are taken. Of a thousand sandboxes at once two
 * share a user once in two thousand times, and then no more than what is counted by user.
 */
export function uidOf(sandbox: string, { rootless, remapsUsers }: Pick<Engine, 'rootless' | 'remapsUsers'>): number {
  const { first, count } = rootless || remapsUsers ? NARROW : WIDE;
  return first + (createHash('sha256').update(sandbox).digest().readUInt32BE(0) % count);
}

/** The files that say which number a name has, by theirs. */
export type Accounts = Readonly<Record<'passwd' | 'group', string>>;

const FILES = ['passwd', 'group'] as const;
const AGENT = /^agent:.*\n?/gmu;
/** What every sandbox knows, without the agent. */
const COMMON: Accounts = {
  passwd: (sandboxEtc['passwd'] ?? '').replaceAll(AGENT, ''),
  group: (sandboxEtc['group'] ?? '').replaceAll(AGENT, ''),
};

/** The names that a sandbox knows: of `others`, as its image has them, and the agent's; returns what stands in for which file of the container. */
export function writeAccounts(
  folder: string,
  uid: number,
  others: Accounts = COMMON,
): ReadonlyArray<readonly [source: string, target: string]> {
  const etc = join(folder, 'etc');
  mkdirSync(etc, { recursive: true });
  // First: the agent is this one, also where the image has one of that name.
  const agent: Accounts = { passwd: `agent:x:${uid}:${uid}:agent:/tmp/home:/bin/bash\n`, group: `agent:x:${uid}:\n` };
  return FILES.map((name) => {
    writeFileSync(join(etc, name), `${agent[name]}${others[name].replaceAll(AGENT, '')}`, { mode: 0o644 });
    return [join(etc, name), `/etc/${name}`] as const;
  });
}

/** What is longer is no list of accounts that a sandbox needs. */
const MOST_BYTES = 4 << 20;
const BLOCK = 512;
const REGULAR = new Set(['0', '\0']);

/** The first regular file in a tar archive; `undefined` where there is none, or half of one. */
function fileIn(archive: Buffer): string | undefined {
  for (let at = 0; at + BLOCK <= archive.length;) {
    const size = Number.parseInt(archive.toString('latin1', at + 124, at + 136), 8) || 0;
    const [start, end] = [at + BLOCK, at + BLOCK + size];
    if (REGULAR.has(archive.toString('latin1', at + 156, at + 157)))
      return end <= archive.length ? archive.toString('utf8', start, end) : undefined;
    at = start + Math.ceil(size / BLOCK) * BLOCK;
  }
  return undefined;
}

/** `undefined` where it is no file, such as a link. */
async function fileOf(container: Docker.Container, path: string): Promise<string | undefined> {
  try {
    const chunks: Buffer[] = [];
    let size = 0;
    for await (const chunk of await within(`read ${path}`, container.getArchive({ path }))) {
      chunks.push(Buffer.from(chunk as Uint8Array));
      size += chunk.length;
      if (size > MOST_BYTES) return undefined;
    }
    return fileIn(Buffer.concat(chunks));
  } catch (error) {
    if (statusOf(error) === 404) return undefined;
    throw error;
  }
}

/**
 * What an image has of these files, read out of a container that never starts; what it has not is as in every sandbox.
 * `labels` let that container be found again where this process dies meanwhile. Errors: those of the daemon.
 */
export async function accountsOf(
  engine: Engine,
  image: string,
  labels: Readonly<Record<string, string>>,
): Promise<Accounts> {
  const container = await within(
    'create',
    engine.docker.createContainer({
      Image: image,
      Entrypoint: ['/never'],
      Cmd: [],
      Labels: { ...labels },
      HostConfig: { NetworkMode: 'none' },
    }),
  );
  try {
    const [passwd, group] = [await fileOf(container, '/etc/passwd'), await fileOf(container, '/etc/group')];
    const ended = (text: string): string => (text === '' || text.endsWith('\n') ? text : `${text}\n`);
    return { passwd: ended(passwd ?? COMMON.passwd), group: ended(group ?? COMMON.group) };
  } finally {
    await removeContainer(engine, container.id);
  }
}
