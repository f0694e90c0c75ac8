/**
 * The base image: a published one if a registry answers, else one that is built from the packages of this machine's
 * release. A built image is cached under the digest of its recipe. A half-built one is never used.
 */

import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream, createWriteStream, existsSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { createGzip } from 'node:zlib';

import { which } from '#setup/command.mjs';
import { makeDirectoryOnce } from '#setup/files.mjs';
import { withLock } from '#setup/process-lock.mjs';
import { SandboxImpossible, SandboxUnavailable } from '../../sandbox.ts';
import { sandboxEtc } from '../../supervised/runtime.ts';
import { type AptSource, findAptSource } from './apt-source.ts';
import { type Engine, statusOf, within } from '../engine.ts';
import { followReports } from './progress.ts';
import { makePublished, PUBLISHED_BASE, publishedName } from './published-base.ts';
import type { PullOptions } from './pull.ts';

const run = promisify(execFile);
const MADE_WITHIN_MS = 20 * 60_000;
const ARCHIVE = 'rootfs.tar.gz';
const RECIPE = {
  format: 1,
  variant: 'minbase',
  packages: ['git', 'procps', 'python3'],
  dropped: [
    'usr/share/doc',
    'usr/share/man',
    'usr/share/locale',
    'var/cache/apt',
    'var/lib/apt/lists',
    'var/log',
    'etc/machine-id',
    'etc/shadow',
    'etc/shadow-',
    'etc/gshadow',
    'etc/gshadow-',
  ],
  etc: sandboxEtc,
} as const;

export interface BaseImageOptions extends PullOptions {
  /** `$LONGHAUL_CACHE`. */
  readonly cache: string;
  /** Reference that is tried before an image is built here; `null`: none. Default: `PUBLISHED_BASE`. */
  readonly published?: string | null;
  /** Folder that describes apt and the release of this machine. Default: /etc. */
  readonly etc?: string;
}

const digestOf = (suite: string): string =>
  createHash('sha256')
    .update(JSON.stringify({ ...RECIPE, suite, arch: process.arch }))
    .digest('hex')
    .slice(0, 16);

/**
 * The name does not depend on the mirror: all mirrors of a release have the same packages. Podman requires the host
 * part.
 */
export const baseImageName = (suite: string): string => `localhost/longhaul-base:${digestOf(suite)}`;

async function bootstrap(source: AptSource, rootfs: string): Promise<void> {
  const keyring = source.keyring === undefined ? [] : [`--keyring=${source.keyring}`];
  const args = [
    `--variant=${RECIPE.variant}`,
    `--include=${RECIPE.packages.join(',')}`,
    ...keyring,
    source.suite,
    rootfs,
    source.uri,
  ];
  try {
    await run('debootstrap', args, { timeout: MADE_WITHIN_MS, maxBuffer: 64 << 20 });
  } catch (error) {
    const said =
      error instanceof Error && 'stdout' in error
        ? String(error.stdout).trim().split('\n').slice(-3).join('; ')
        : String(error);
    throw new SandboxUnavailable(`debootstrap could not build the base image: ${said}`);
  }
}

async function archive(rootfs: string, path: string): Promise<void> {
  const tar = spawn('tar', ['--sort=name', '--numeric-owner', '-C', rootfs, '-c', '.'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
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
  // The tag is part of `repo`: Podman ignores a separate one.
  const options = { fromSrc: '-', repo: image, message: 'longhaul base' };
  const answer = (await within(
    'import',
    engine.docker.importImage(createReadStream(path), options),
    MADE_WITHIN_MS,
  )) as Readable;
  await followReports(answer, () => undefined);
}

/** Why this machine cannot build one; `undefined` if it can. */
export function cannotMake(source: AptSource | undefined): string | undefined {
  if (source === undefined) return 'this machine has no apt to build one from';
  if (process.getuid?.() !== 0) return 'only root can build one (debootstrap)';
  return which('debootstrap', process.env) === undefined
    ? 'there is no debootstrap to build one: apt install debootstrap'
    : undefined;
}

const folderFor = (cache: string, suite: string): string => join(cache, 'images', `base-${digestOf(suite)}`);

/** True if one was built here before: then no registry is queried. */
export const wasMade = (cache: string, source: AptSource | undefined): boolean =>
  source !== undefined && existsSync(join(folderFor(cache, source.suite), ARCHIVE));

/** The names that a base image may have on this host, the preferred one first. */
export function baseImageNames(published: string | null, source: AptSource | undefined): string[] {
  return [
    ...(published === null ? [] : [publishedName(published)]),
    ...(source === undefined ? [] : [baseImageName(source.suite)]),
  ];
}

/** The first of `names` that the daemon has. */
export async function presentImage(engine: Engine, names: readonly string[]): Promise<string | undefined> {
  for (const name of names) if (await isThere(engine, name)) return name;
  return undefined;
}

async function makeOwn(engine: Engine, source: AptSource, { cache, onProgress }: BaseImageOptions): Promise<string> {
  const image = baseImageName(source.suite);
  const folder = folderFor(cache, source.suite);
  onProgress?.(
    wasMade(cache, source) ? `importing the base image ${image}` : `building the base image ${image} with debootstrap`,
  );
  await makeDirectoryOnce(folder, (aside) => fill(aside, source));
  await importArchive(engine, join(folder, ARCHIVE), image);
  return image;
}

/** Pulls the published image. Returns the error, or `undefined` if that succeeded. */
async function hindered(engine: Engine, published: string, options: BaseImageOptions): Promise<Error | undefined> {
  try {
    options.onProgress?.(`pulling the base image ${published}`);
    await makePublished(engine, published, options);
    return undefined;
  } catch (error) {
    if (error instanceof SandboxImpossible || error instanceof SandboxUnavailable) return error;
    throw error;
  }
}

/** As `ensureBaseImage`, if the daemon has none. */
async function make(engine: Engine, options: BaseImageOptions): Promise<string> {
  const { published = PUBLISHED_BASE, etc } = options;
  const source = findAptSource(etc);
  if (source !== undefined && wasMade(options.cache, source)) return makeOwn(engine, source, options);
  const hindrance = published === null ? undefined : await hindered(engine, published, options);
  if (published !== null && hindrance === undefined) return publishedName(published);
  const reason = cannotMake(source);
  if (source !== undefined && reason === undefined) {
    if (hindrance !== undefined) options.onProgress?.(hindrance.message);
    return makeOwn(engine, source, options);
  }
  const message =
    `no base image: ${hindrance === undefined ? '' : `${hindrance.message}, and `}${reason}; ` +
    'set LONGHAUL_DOCKER_IMAGE to an image';
  // A registry that does not answer now may answer the next attempt.
  throw hindrance instanceof SandboxUnavailable ? new SandboxUnavailable(message) : new SandboxImpossible(message);
}

/**
 * Returns the image's name. If the daemon has none, it imports the one that was built here before, else pulls the
 * published one, else builds one. Errors: `SandboxImpossible`, `SandboxUnavailable`.
 */
export async function ensureBaseImage(engine: Engine, options: BaseImageOptions): Promise<string> {
  const names = baseImageNames(
    options.published === undefined ? PUBLISHED_BASE : options.published,
    findAptSource(options.etc),
  );
  const there = await presentImage(engine, names);
  if (there !== undefined) return there;
  const waiting = (): void => options.onProgress?.('another process is building the base image: waiting');
  return await withLock(
    join(options.cache, 'images', 'base.lock'),
    waiting,
    async () => (await presentImage(engine, names)) ?? (await make(engine, options)),
  );
}
