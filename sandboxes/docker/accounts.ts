/**
 * The user of a sandbox's processes, inside its container and on the host. Each sandbox has its own, since the kernel
 * has limits per user (inotify, pending signals, pages of pipes, keys), which sandboxes must not share. Inside the
 * container this user is named `agent`, beside the image's users.
 */

import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import type Docker from 'dockerode';

import { sandboxEtc } from '../supervised/runtime.ts';
import { type Engine, statusOf, within } from './engine.ts';
import { removeContainer } from './record.ts';

/** Above the uids of a machine's own users, and within a signed 32-bit integer. */
const WIDE = { first: 2 ** 30, count: 2 ** 30 } as const;
/** For daemons that map the containers' users to others on the host: they have at least 65,536. */
const NARROW = { first: 10_000, count: 50_000 } as const;

/**
 * The uid is derived from the sandbox's id, so no list of used uids is needed. Among a thousand concurrent sandboxes,
 * two share a uid with a probability of 1 in 2,000. They then share only the limits per user.
 */
export function uidOf(sandbox: string, { rootless, remapsUsers }: Pick<Engine, 'rootless' | 'remapsUsers'>): number {
  const { first, count } = rootless || remapsUsers ? NARROW : WIDE;
  return first + (createHash('sha256').update(sandbox).digest().readUInt32BE(0) % count);
}

/** The contents of the files that map names to numbers, by file name. */
export type Accounts = Readonly<Record<'passwd' | 'group', string>>;

const FILES = ['passwd', 'group'] as const;
const AGENT = /^agent:.*\n?/gmu;
/** The accounts of every sandbox, without the agent. */
const COMMON: Accounts = {
  passwd: (sandboxEtc['passwd'] ?? '').replaceAll(AGENT, ''),
  group: (sandboxEtc['group'] ?? '').replaceAll(AGENT, ''),
};

/**
 * Writes the account files of a sandbox: the agent, and `others` (the image's accounts). Returns which file of the host
 * replaces which file of the container.
 */
export function writeAccounts(
  folder: string,
  uid: number,
  others: Accounts = COMMON,
): ReadonlyArray<readonly [source: string, target: string]> {
  const etc = join(folder, 'etc');
  mkdirSync(etc, { recursive: true });
  // First, so that it takes precedence over a user `agent` of the image.
  const agent: Accounts = { passwd: `agent:x:${uid}:${uid}:agent:/tmp/home:/bin/bash\n`, group: `agent:x:${uid}:\n` };
  return FILES.map((name) => {
    writeFileSync(join(etc, name), `${agent[name]}${others[name].replaceAll(AGENT, '')}`, { mode: 0o644 });
    return [join(etc, name), `/etc/${name}`] as const;
  });
}

/** Longer account files are ignored. */
const MOST_BYTES = 4 << 20;
const BLOCK = 512;
const REGULAR = new Set(['0', '\0']);

/** The first regular file in a tar archive; `undefined` if there is none, or if it is incomplete. */
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

/** The content of a file in the container; `undefined` if it is missing, too long, or no regular file. */
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
 * Reads an image's account files from a container that never starts. A missing file is replaced by the one that every
 * sandbox has. `labels` mark that container, so that it can be found if this process dies. Errors: those of the daemon.
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
