/** Where a sandbox's base image would come from on this host: found out without pulling or making anything. */

import { type Engine, within } from '../engine.ts';
import { findAptSource } from './apt-source.ts';
import { baseImageNames, cannotMake, presentImage, wasMade } from './base-image.ts';
import type { RegistryAuth } from './credentials.ts';
import type { ImagesOptions } from './images.ts';
import { PUBLISHED_BASE } from './published-base.ts';
import { asUsOrAnybody } from './pull.ts';

const ANSWERS_WITHIN_MS = 15_000;

/** `lacks`: why there is none. */
export type ImageOutlook = { readonly found: string } | { readonly lacks: string };

/** Why the registry of `image` does not give it; `undefined` where it does. */
async function refusal(engine: Engine, image: string, options: ImagesOptions): Promise<string | undefined> {
  const ask = (authconfig: RegistryAuth | undefined) => {
    const asked = engine.docker.getImage(image).distribution(authconfig === undefined ? {} : { authconfig });
    return within(`ask for ${image}`, asked, ANSWERS_WITHIN_MS);
  };
  return await asUsOrAnybody(image, options, ask).then(
    () => undefined,
    (error: unknown) => `image ${image} cannot be pulled: ${error instanceof Error ? error.message : String(error)}`,
  );
}

async function namedOutlook(engine: Engine, image: string, options: ImagesOptions): Promise<ImageOutlook> {
  if ((await presentImage(engine, [image])) !== undefined) return { found: `${image}, on this host` };
  const lacks = await refusal(engine, image, options);
  return lacks === undefined ? { found: `${image}, at its registry` } : { lacks };
}

/** Errors: `SandboxUnavailable` where the daemon does not answer. */
export async function imageOutlook(engine: Engine, options: ImagesOptions): Promise<ImageOutlook> {
  const { base, cache, published = PUBLISHED_BASE } = options;
  if (base !== undefined) return namedOutlook(engine, base, options);
  const source = findAptSource(options.etc);
  const there = await presentImage(engine, baseImageNames(published, source));
  if (there !== undefined) return { found: `${there}, on this host` };
  if (wasMade(cache, source)) return { found: 'made here before, in the cache' };
  const refused = published === null ? 'none is published' : await refusal(engine, published, options);
  if (refused === undefined) return { found: `${published}, at its registry` };
  const reason = cannotMake(source);
  return reason === undefined ? { found: 'debootstrap can make one' } : { lacks: `${refused}, and ${reason}` };
}
