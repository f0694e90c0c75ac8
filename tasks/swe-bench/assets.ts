/**
 * Files that hidden tests need and a patch cannot carry, such as images to compare with (`image_assets` of SWE-bench
 * Multimodal): a folder has those of an instance under its id, by their paths. They are put in place before the tests.
 */

import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { UserInputError } from '../../protocol/user-input-error.ts';
import type { Instance } from './instance.ts';

export interface Asset {
  /** Relative to the workspace. */
  readonly path: string;
  readonly content: Uint8Array;
}

/** Of all files of an instance. */
const MOST_BYTES = 60 << 20;

const listed = z
  .array(
    z.looseObject({ path: z.string().regex(/^(?!\/)(?!.*(?:^|\/)\.\.?(?:\/|$))[^\0]+$/u, 'give a relative path') }),
  )
  .nullish();
const record = z.looseObject({ test_patch: listed, patch: listed });

/** The paths in a record's `image_assets`, an object or its JSON text. */
export const assetPaths = z
  .preprocess((given, ctx) => {
    if (typeof given !== 'string') return given ?? {};
    try {
      return given.trim() === '' ? {} : JSON.parse(given);
    } catch {
      ctx.addIssue({ code: 'custom', message: 'give an object with lists of paths, or its JSON text' });
      return z.NEVER;
    }
  }, record)
  .transform(({ test_patch: ofTests, patch }) => [
    ...new Set([...(ofTests ?? []), ...(patch ?? [])].map(({ path }) => path)),
  ]);

const fileOf = (folder: string | undefined, { id }: Pick<Instance, 'id'>, path: string): string =>
  join(folder ?? '', id, path);

/** Errors: `UserInputError` if a file of the instance is not there, or all together are too large. */
export function checkAssets(folder: string | undefined, instance: Pick<Instance, 'id' | 'assets'>): void {
  const { id, assets } = instance;
  const missing = assets.find((path) => folder === undefined || !existsSync(fileOf(folder, instance, path)));
  if (missing !== undefined)
    throw new UserInputError(
      'task.options.assets',
      folder ?? '(none)',
      `the tests of ${id} need ${missing} (image_assets): put it into such a folder as ${id}/${missing}`,
    );
  const bytes = assets.reduce((sum, path) => sum + statSync(fileOf(folder, instance, path)).size, 0);
  if (bytes > MOST_BYTES)
    throw new UserInputError(
      'task.options.assets',
      fileOf(folder, instance, ''),
      `${bytes} bytes, at most ${MOST_BYTES} fit`,
    );
}

/** Errors: those of `checkAssets`. */
export function assetsIn(folder: string | undefined, instance: Pick<Instance, 'id' | 'assets'>): Asset[] {
  checkAssets(folder, instance);
  return instance.assets.map((path) => ({ path, content: readFileSync(fileOf(folder, instance, path)) }));
}
