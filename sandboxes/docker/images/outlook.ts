/** Reports where a sandbox's base image would come from on this host, without pulling or building anything. */

import { type Engine, within } from '../engine.ts';
import { findAptSource } from './apt-source.ts';
import { baseImageNames, cannotMake, presentImage, wasMade } from './base-image.ts';
import type { RegistryAuth } from './credentials.ts';
import type { ImagesOptions } from './images.ts';
import { PUBLISHED_BASE } from './published-base.ts';
import { asUsOrAnybody } from './pull.ts';

const ANSWERS_WITHIN_MS = 15_000;

/** `lacks`: the reason why there is no image. */
export type ImageOutlook = { readonly found: string } | { readonly lacks: string };

/** Why `image` cannot be pulled from its registry; `undefined` if it can. */
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

/** Errors: `SandboxUnavailable` if the daemon does not answer. */
export async function imageOutlook(engine: Engine, options: ImagesOptions): Promise<ImageOutlook> {
  const { base, cache, published = PUBLISHED_BASE } = options;
  if (base !== undefined) return namedOutlook(engine, base, options);
  const source = findAptSource(options.etc);
  const there = await presentImage(engine, baseImageNames(published, source));
  if (there !== undefined) return { found: `${there}, on this host` };
  if (wasMade(cache, source)) return { found: 'built here before, in the cache' };
  const refused = published === null ? 'no published image is set' : await refusal(engine, published, options);
  if (refused === undefined) return { found: `${published}, at its registry` };
  const reason = cannotMake(source);
  return reason === undefined ? { found: 'debootstrap can build one' } : { lacks: `${refused}, and ${reason}` };
}
