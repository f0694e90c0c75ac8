/** The images of this host's daemon: each is looked for, pulled or made once, however many sandboxes wait for it. */

import { createHash } from 'node:crypto';
import { join } from 'node:path';

import { withLock } from '#setup/process-lock.mjs';
import { SandboxUnavailable } from '../../sandbox.ts';
import { type BaseImageOptions, ensureBaseImage } from './base-image.ts';
import { type Engine, statusOf, within } from '../engine.ts';
import { pullImage } from './pull.ts';

export interface ImagesOptions extends BaseImageOptions {
  /** What a sandbox is made of that names no image; default: the base image. */
  readonly base?: string;
}

export interface Images {
  /**
   * The digest of what `image` (or the base image) names on this host, when it is there; `hear` gets what is told
   * meanwhile. Errors: those of pulling.
   */
  ensure(image: string | undefined, hear?: (line: string) => void): Promise<string>;
  /** Whether it is somebody's own, and not the base image as Longhaul makes it. */
  isGiven(image: string | undefined): boolean;
  /** The digest that `ensure` found. */
  known(image: string | undefined): string | undefined;
  /** It was there once, and is no longer. */
  forget(image: string | undefined): void;
}

const BASE = '';

/** An image that is looked for, and who hears what is told of it. */
interface Looking {
  readonly digest: Promise<string>;
  readonly hearers: Set<(line: string) => void>;
}

export function openImages(engine: Engine, given: ImagesOptions): Images {
  const found = new Map<string, string>();
  const looking = new Map<string, Looking>();

  const digestOf = async (image: string): Promise<string | undefined> => {
    try {
      // Podman takes an id for a name when it begins with the name of the hash.
      return (await within(`inspect ${image}`, engine.docker.getImage(image).inspect())).Id.replace(/^sha256:/u, '');
    } catch (error) {
      if (statusOf(error) === 404) return undefined;
      throw error;
    }
  };

  const pulled = async (image: string, options: ImagesOptions): Promise<string> => {
    const there = await digestOf(image);
    if (there !== undefined) return there;
    const lock = join(
      options.cache,
      'images',
      `pull-${createHash('sha256').update(image).digest('hex').slice(0, 16)}.lock`,
    );
    // One process of this host pulls; the others then find the image.
    return await withLock(
      lock,
      () => options.onProgress?.(`${image}: another process pulls it`),
      async () => {
        if ((await digestOf(image)) === undefined) await pullImage(engine, image, options);
        return (await digestOf(image)) ?? image;
      },
    );
  };

  const look = async (image: string, options: ImagesOptions): Promise<string> => {
    const named = image === BASE ? options.base : image;
    if (named !== undefined) return await pulled(named, options);
    const made = await ensureBaseImage(engine, options);
    const digest = await digestOf(made);
    if (digest === undefined)
      throw new SandboxUnavailable(`image ${made} was imported, and the daemon does not know it`);
    return digest;
  };

  const begin = (image: string): Looking => {
    const hearers = new Set<(line: string) => void>();
    const onProgress = (line: string): void => {
      given.onProgress?.(line);
      for (const hear of hearers) hear(line);
    };
    const digest = look(image, { ...given, onProgress }).finally(() => looking.delete(image));
    return { digest, hearers };
  };

  return {
    async ensure(image = BASE, hear = () => undefined) {
      const known = found.get(image);
      if (known !== undefined) return known;
      const running = looking.get(image) ?? begin(image);
      looking.set(image, running);
      running.hearers.add(hear);
      const digest = await running.digest.finally(() => running.hearers.delete(hear));
      found.set(image, digest);
      return digest;
    },
    isGiven: (image = BASE) => image !== BASE || given.base !== undefined,
    known: (image = BASE) => found.get(image),
    forget: (image = BASE) => void found.delete(image),
  };
}
