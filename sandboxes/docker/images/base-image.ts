/**
 * The base image: a published one where a registry answers, else this machine's release out of its own packages, with
 * what tasks need. What is made is kept under the digest of its recipe, and what is half made is never taken for made.
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
  /** Tried before one is made here; `null`: none. Default: `PUBLISHED_BASE`. */
  readonly published?: string | null;
  /** Where apt and the release of this machine are described; default: /etc. */
  readonly etc?: string;
}

const digestOf = (suite: string): string =>
  createHash('sha256')
    .update(JSON.stringify({ ...RECIPE, suite, arch: process.arch }))
    .digest('hex')
    .slice(0, 16);

/** Without the mirror: two mirrors of one release hold the same packages. Podman keeps a name only with its host. */
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
    throw new SandboxUnavailable(`debootstrap could not make the base image: ${said}`);
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
  // The tag is part of `repo`: Podman leaves out one that stands beside it.
  const options = { fromSrc: '-', repo: image, message: 'longhaul base' };
  const answer = (await within(
    'import',
    engine.docker.importImage(createReadStream(path), options),
    MADE_WITHIN_MS,
  )) as Readable;
  await followReports(answer, () => undefined);
}

/** Why this machine cannot make one; `undefined` where it can. */
export function cannotMake(source: AptSource | undefined): string | undefined {
  if (source === undefined) return 'this machine has no apt to make one from';
  if (process.getuid?.() !== 0) return 'only root can make one (debootstrap)';
  return which('debootstrap', process.env) === undefined
    ? 'there is no debootstrap to make one: apt install debootstrap'
    : undefined;
}

const folderFor = (cache: string, suite: string): string => join(cache, 'images', `base-${digestOf(suite)}`);

/** Whether one was made here before: then no registry is asked. */
export const wasMade = (cache: string, source: AptSource | undefined): boolean =>
  source !== undefined && existsSync(join(folderFor(cache, source.suite), ARCHIVE));

/** The names that a base image may have on this host, the one that is preferred first. */
export function baseImageNames(published: string | null, source: AptSource | undefined): string[] {
  return [
    ...(published === null ? [] : [publishedName(published)]),
    ...(source === undefined ? [] : [baseImageName(source.suite)]),
  ];
}

/** Whichever of them the daemon has. */
export async function presentImage(engine: Engine, names: readonly string[]): Promise<string | undefined> {
  for (const name of names) if (await isThere(engine, name)) return name;
  return undefined;
}

async function makeOwn(engine: Engine, source: AptSource, { cache, onProgress }: BaseImageOptions): Promise<string> {
  const image = baseImageName(source.suite);
  const folder = folderFor(cache, source.suite);
  onProgress?.(
    wasMade(cache, source) ? `importing the base image ${image}` : `making the base image ${image} with debootstrap`,
  );
  await makeDirectoryOnce(folder, (aside) => fill(aside, source));
  await importArchive(engine, join(folder, ARCHIVE), image);
  return image;
}

/** What hindered it; `undefined` when it is there. */
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

/** As `ensureBaseImage`, where the daemon has none. */
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
  const message = `no base image: ${hindrance === undefined ? '' : `${hindrance.message}, and `}${reason}; name an image in LONGHAUL_DOCKER_IMAGE`;
  // A registry that is away for now may be back at the next try.
  throw hindrance instanceof SandboxUnavailable ? new SandboxUnavailable(message) : new SandboxImpossible(message);
}

/**
 * Returns the image's name. Where the daemon has none: what was made here before is imported, else a published one is
 * pulled, else one is made. Errors: `SandboxImpossible`, `SandboxUnavailable`.
 */
export async function ensureBaseImage(engine: Engine, options: BaseImageOptions): Promise<string> {
  const names = baseImageNames(
    options.published === undefined ? PUBLISHED_BASE : options.published,
    findAptSource(options.etc),
  );
  const there = await presentImage(engine, names);
  if (there !== undefined) return there;
  const waiting = (): void => options.onProgress?.('another process makes the base image: waiting');
  return await withLock(
    join(options.cache, 'images', 'base.lock'),
    waiting,
    async () => (await presentImage(engine, names)) ?? (await make(engine, options)),
  );
}
