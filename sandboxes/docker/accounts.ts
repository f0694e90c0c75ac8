/**
 * Which user a sandbox's processes are, inside of its container and on the host: one of its own, since the kernel counts
 * much by user (inotify, pending signals, pages of pipes, keys), and what one sandbox takes of that is not another's.
 */

import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';

import { CLAIM_LABEL, SCOPE_LABEL } from './container.ts';
import { classifyDocker, type Engine, statusOf, within } from './engine.ts';
import { removeContainer } from './record.ts';

const AGENT = 'agent';
/** Above all that a machine gives to its own users, below what 32 bits with a sign hold. */
const WIDE = { first: 2 ** 30, count: 2 ** 30 } as const;
/** What a daemon has whose containers' users are others outside: 65,536 at least, of which ours is none of the image's. */
const NARROW = { first: 10_000, count: 50_000 } as const;
const HEADER = 512;

/**
 * Follows from the sandbox's id, so that nobody keeps count of those that are taken. Of a thousand sandboxes at once two
 * share a user once in two thousand times, and then no more than what is counted by user.
 */
export function uidOf(sandbox: string, { rootless, remapsUsers }: Pick<Engine, 'rootless' | 'remapsUsers'>): number {
  const { first, count } = rootless || remapsUsers ? NARROW : WIDE;
  return first + (createHash('sha256').update(sandbox).digest().readUInt32BE(0) % count);
}

/** The first file of a tar archive. */
function firstFile(archive: Buffer): string {
  const size = Number.parseInt(archive.toString('latin1', 124, 136), 8);
  return archive.toString('utf8', HEADER, HEADER + size);
}

async function fileOf(engine: Engine, container: string, path: string): Promise<string> {
  try {
    const archive = (await within(`read ${path}`, engine.docker.getContainer(container).getArchive({ path }))) as Readable;
    return firstFile(Buffer.concat(await archive.toArray()));
  } catch (error) {
    if (statusOf(error) === 404) return '';
    throw classifyDocker(`${path} of ${container} cannot be read`, error);
  }
}

/** Who the image knows, as its /etc/passwd and /etc/group say; empty where it knows nobody. */
export interface Accounts {
  readonly passwd: string;
  readonly group: string;
}

/** Through a container that never starts. What is left of it in a crash is found by its labels. */
export async function accountsOf(engine: Engine, image: string, scope: string, claim: string): Promise<Accounts> {
  const Labels = { [SCOPE_LABEL]: scope, [CLAIM_LABEL]: claim };
  const options = { Image: image, Entrypoint: ['/none'], Cmd: [], Labels, HostConfig: { NetworkMode: 'none' } };
  const { id } = await within('create', engine.docker.createContainer(options));
  try {
    return { passwd: await fileOf(engine, id, '/etc/passwd'), group: await fileOf(engine, id, '/etc/group') };
  } finally {
    await removeContainer(engine, id);
  }
}

/** `lines`, with one of the agent's in place of those that have its name or number. */
function withAgent(lines: string, uid: number, line: string): string {
  const others = lines.split('\n').filter((each) => each !== '' && !each.startsWith(`${AGENT}:`) && each.split(':')[2] !== String(uid));
  return `${[...others, line].join('\n')}\n`;
}

/** Writes the accounts of one sandbox below `folder`; returns what stands in for which file of the container. */
export function writeAccounts(folder: string, { passwd, group }: Accounts, uid: number): ReadonlyArray<readonly [source: string, target: string]> {
  const texts = {
    passwd: withAgent(passwd, uid, `${AGENT}:x:${uid}:${uid}:${AGENT}:/tmp/home:/bin/bash`),
    group: withAgent(group, uid, `${AGENT}:x:${uid}:`),
  };
  const etc = join(folder, 'etc');
  mkdirSync(etc, { recursive: true });
  return Object.entries(texts).map(([name, text]) => {
    writeFileSync(join(etc, name), text, { mode: 0o644 });
    return [join(etc, name), `/etc/${name}`] as const;
  });
}
