/**
 * The base image where no registry has one: this machine's release out of its own packages, with what tasks need.
 * It is kept under the digest of its recipe, and what is half made is never taken for made.
 */

import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { createGzip } from 'node:zlib';

import { makeDirectoryOnce } from '#setup/files.mjs';
import { withLock } from '#setup/process-lock.mjs';
import { SandboxImpossible, SandboxUnavailable } from '../sandbox.ts';
import { sandboxEtc } from '../supervised/runtime.ts';
import { type AptSource, findAptSource } from './apt-source.ts';
import { type Engine, statusOf, within } from './engine.ts';
import { followReports } from './progress.ts';

const run = promisify(execFile);
const MADE_WITHIN_MS = 20 * 60_000;
const ARCHIVE = 'rootfs.tar.gz';
const RECIPE = {
  format: 1,
  variant: 'minbase',
  packages: ['git', 'procps', 'python3'],
  dropped: ['usr/share/doc', 'usr/share/man', 'usr/share/locale', 'var/cache/apt', 'var/lib/apt/lists', 'var/log', 'etc/machine-id', 'etc/shadow', 'etc/shadow-', 'etc/gshadow', 'etc/gshadow-'],
  etc: sandboxEtc,
} as const;

export interface BaseImageOptions {
  /** `$LONGHAUL_CACHE`. */
  readonly cache: string;
  readonly onProgress?: (line: string) => void;
}

const digestOf = (suite: string): string =>
  createHash('sha256').update(JSON.stringify({ ...RECIPE, suite, arch: process.arch })).digest('hex').slice(0, 16);

/** Without the mirror: two mirrors of one release hold the same packages. Podman keeps a name only with its host. */
export const baseImageName = (suite: string): string => `localhost/longhaul-base:${digestOf(suite)}`;

async function bootstrap(source: AptSource, rootfs: string): Promise<void> {
  const keyring = source.keyring === undefined ? [] : [`--keyring=${source.keyring}`];
  const args = [`--variant=${RECIPE.variant}`, `--include=${RECIPE.packages.join(',')}`, ...keyring, source.suite, rootfs, source.uri];
  try {
    await run('debootstrap', args, { timeout: MADE_WITHIN_MS, maxBuffer: 64 << 20 });
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT')
      throw new SandboxImpossible('there is no base image, and no debootstrap to make one: apt install debootstrap, or name an image in LONGHAUL_DOCKER_IMAGE');
    const said = error instanceof Error && 'stdout' in error ? String(error.stdout).trim().split('\n').slice(-3).join('; ') : String(error);
    throw new SandboxUnavailable(`debootstrap could not make the base image: ${said}`);
  }
}

async function archive(rootfs: string, path: string): Promise<void> {
  const tar = spawn('tar', ['--sort=name', '--numeric-owner', '-C', rootfs, '-c', '.'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(tar, 'close');
  await pipeline(tar.stdout, createGzip({ level: 1 }), createWriteStream(path));
  const [code] = (await ended) as [number | null];
  if (code !== 0) throw new SandboxUnavailable(`tar of the base image ended with ${code}`);
}

async function fill(aside: string, source: AptSource): Promise<{ suite: string }> {
  const rootfs = join(aside, 'rootfs');
  try {
    await bootstrap(source, rootfs);
    for (const path of RECIPE.dropped) await rm(join(rootfs, path), { recursive: true, force: true });
    const texts = Object.entries(RECIPE.etc).filter(([name]) => name !== 'ld.so.cache');
    for (const [name, text] of texts) await writeFile(join(rootfs, 'etc', name), text);
    await archive(rootfs, join(aside, ARCHIVE));
  } finally {
    await rm(rootfs, { recursive: true, force: true });
  }
  return { suite: source.suite };
}

async function isThere(engine: Engine, image: string): Promise<boolean> {
  try {
    await within(`inspect ${image}`, engine.docker.getImage(image).inspect());
    return true;
  } catch (error) {
    if (statusOf(error) === 404) return false;
    throw error;
  }
}

async function importArchive(engine: Engine, path: string, image: string): Promise<void> {
  // The tag is part of `repo`: Podman leaves out one that stands beside it.
  const options = { fromSrc: '-', repo: image, message: 'longhaul base' };
  const answer = (await within('import', engine.docker.importImage(createReadStream(path), options), MADE_WITHIN_MS)) as Readable;
  await followReports(answer, () => undefined);
}

/** Returns the image's name; made, and imported into this daemon, where it is not there. */
export async function ensureBaseImage(engine: Engine, options: BaseImageOptions): Promise<string> {
  const source = findAptSource();
  if (source === undefined)
    throw new SandboxImpossible('no base image: this machine has no apt to make one from; name an image in LONGHAUL_DOCKER_IMAGE');
  const image = baseImageName(source.suite);
  if (await isThere(engine, image)) return image;
  if (process.getuid?.() !== 0)
    throw new SandboxImpossible(`no base image: only root can make one (debootstrap); name an image in LONGHAUL_DOCKER_IMAGE`);
  const folder = join(options.cache, 'images', `base-${digestOf(source.suite)}`);
  const waiting = (): void => options.onProgress?.('another process makes the base image: waiting');
  return await withLock(`${folder}.lock`, waiting, async () => {
    options.onProgress?.(`making the base image ${image} with debootstrap`);
    await makeDirectoryOnce(folder, (aside) => fill(aside, source));
    if (!(await isThere(engine, image))) await importArchive(engine, join(folder, ARCHIVE), image);
    return image;
  });
}
