/** The images of this host's daemon: each is inspected, pulled or built once, even if many sandboxes wait for it. */

import { createHash } from 'node:crypto';
import { join } from 'node:path';

import { withLock } from '#setup/process-lock.mjs';
import { type ImageBuild, SandboxUnavailable } from '../../sandbox.ts';
import { type BaseImageOptions, ensureBaseImage } from './base-image.ts';
import { type Engine, statusOf, within } from '../engine.ts';
import { buildImage } from './build-image.ts';
import { pullImage } from './pull.ts';

export interface ImagesOptions extends BaseImageOptions {
  /** Image of sandboxes whose spec sets none. Default: the base image. */
  readonly base?: string;
}

export interface Images {
  /**
   * Gets `image` (default: the base image) onto this host by pulling or by `build`, and returns its digest. `onLine`
   * receives lines of progress. Errors: those of pulling and of building.
   */
  ensure(image: string | undefined, onLine?: (line: string) => void, build?: ImageBuild): Promise<string>;
  /** True if the user chose the image, false if it is Longhaul's base image. */
  isGiven(image: string | undefined): boolean;
  /** The digest that `ensure` returned; `undefined` before. */
  known(image: string | undefined): string | undefined;
  /** Forgets the digest: the image was removed from this host. */
  forget(image: string | undefined): void;
}

const BASE = '';

/** A search for an image, and the functions that receive its progress. */
interface Looking {
  readonly digest: Promise<string>;
  readonly listeners: Set<(line: string) => void>;
}

export function openImages(engine: Engine, given: ImagesOptions): Images {
  const found = new Map<string, string>();
  const looking = new Map<string, Looking>();

  const digestOf = async (image: string): Promise<string | undefined> => {
    try {
      // Podman treats an id that starts with the name of the hash as an image name.
      return (await within(`inspect ${image}`, engine.docker.getImage(image).inspect())).Id.replace(/^sha256:/u, '');
    } catch (error) {
      if (statusOf(error) === 404) return undefined;
      throw error;
    }
  };

  const fetched = async (image: string, options: ImagesOptions, build: ImageBuild | undefined): Promise<string> => {
    const there = await digestOf(image);
    if (there !== undefined) return there;
    const [verb, doing] = build === undefined ? ['pull', 'pulling'] : ['build', 'building'];
    const lock = join(
      options.cache,
      'images',
      `${verb}-${createHash('sha256').update(image).digest('hex').slice(0, 16)}.lock`,
    );
    // One process of this host pulls or builds; the others wait and then find the image.
    return await withLock(
      lock,
      () => options.onProgress?.(`${image}: another process is ${doing} it: waiting`),
      async () => {
        if ((await digestOf(image)) === undefined)
          await (build === undefined ? pullImage(engine, image, options) : buildImage(engine, image, build, options));
        return (await digestOf(image)) ?? image;
      },
    );
  };

  const look = async (image: string, options: ImagesOptions, build: ImageBuild | undefined): Promise<string> => {
    const named = image === BASE ? options.base : image;
    if (named !== undefined) return await fetched(named, options, build);
    const made = await ensureBaseImage(engine, options);
    const digest = await digestOf(made);
    if (digest === undefined)
      throw new SandboxUnavailable(`image ${made} was imported, but the daemon does not list it`);
    return digest;
  };

  const begin = (image: string, build: ImageBuild | undefined): Looking => {
    const listeners = new Set<(line: string) => void>();
    const onProgress = (line: string): void => {
      given.onProgress?.(line);
      for (const onLine of listeners) onLine(line);
    };
    const digest = look(image, { ...given, onProgress }, build).finally(() => looking.delete(image));
    return { digest, listeners };
  };

  return {
    async ensure(image = BASE, onLine = () => undefined, build) {
      const known = found.get(image);
      if (known !== undefined) return known;
      const running = looking.get(image) ?? begin(image, build);
      looking.set(image, running);
      running.listeners.add(onLine);
      const digest = await running.digest.finally(() => running.listeners.delete(onLine));
      found.set(image, digest);
      return digest;
    },
    isGiven: (image = BASE) => image !== BASE || given.base !== undefined,
    known: (image = BASE) => found.get(image),
    forget: (image = BASE) => void found.delete(image),
  };
}
