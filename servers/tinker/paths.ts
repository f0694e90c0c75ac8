/** Names and lifetimes of checkpoints: `tinker://RUN/(weights|sampler_weights)/NAME`. */

import { ApiError } from '../http/api-error.ts';
import { quoted } from './service.ts';

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const PATH = /^tinker:\/\/([^/\s]+)\/(weights|sampler_weights)\/([^/\s]+)$/;
/** Names that no caller can give: weights of a sampler that was made in one step with it. */
const UNNAMED = /^_sampling-(\d+)$/;
const [LEAST_TTL, MOST_TTL] = [3600, 10 * 366 * 86_400];
/** Weights without a name cannot be listed, so nobody would delete them. */
export const UNNAMED_TTL = 7 * 86_400;

export type Folder = 'weights' | 'sampler_weights';

export interface CheckpointPath {
  readonly run: string;
  readonly folder: Folder;
  readonly name: string;
}

export const pathTo = ({ run, folder, name }: CheckpointPath): string => `tinker://${run}/${folder}/${name}`;

/** Errors: `ApiError` 400. */
export function checkName(name: string | undefined): string {
  if (name !== undefined && NAME.test(name)) return name;
  throw new ApiError(
    400,
    `path: ${quoted(name)} is no name of a checkpoint; give 1 to 128 letters, digits, points, ` +
      'hyphens or underscores, beginning with a letter or digit',
  );
}

export const unnamed = (seq: number): string => `_sampling-${seq}`;
/** The number of its sampler, if it is one of a sampler. */
export const numberOfUnnamed = (name: string): number | undefined => {
  const number = UNNAMED.exec(name)?.[1];
  return number === undefined ? undefined : Number(number);
};

/** Errors: `ApiError` 400. */
export function parsePath(path: string, field = 'path'): CheckpointPath {
  const [, run, folder, name] = PATH.exec(path) ?? [];
  if (run === undefined || name === undefined)
    throw new ApiError(
      400,
      `${field}: ${quoted(path)} is no path of a checkpoint; ` +
        'give tinker://RUN/weights/NAME or tinker://RUN/sampler_weights/NAME',
    );
  return { run, folder: folder === 'weights' ? 'weights' : 'sampler_weights', name };
}

/** When it expires, as ISO 8601. Errors: `ApiError` 400 for a time outside of an hour to ten years. */
export function expiryOf(seconds: number | undefined, now: Date): string | undefined {
  if (seconds === undefined) return undefined;
  if (!Number.isInteger(seconds) || seconds < LEAST_TTL || seconds > MOST_TTL)
    throw new ApiError(
      400,
      `ttl_seconds: ${seconds} cannot be used; give ${LEAST_TTL} (an hour) to ${MOST_TTL} (ten years)`,
    );
  return new Date(now.getTime() + seconds * 1000).toISOString();
}
