/** How much memory the key-value cache may take, and how many blocks that is. */

import { totalmem } from 'node:os';
import type { ModelConfig } from '../../model/config.ts';

const variable = 'LONGHAUL_KV_CACHE_MIB';

/** Without a setting: this share of the memory that the process may use, and a GiB at most. */
const share = 1 / 16;
const most = 2 ** 30;

/** Keys and values in float32; each head is padded to a multiple of 16 numbers. */
const bytesPerPosition = ({ layers, kvHeads, headDim }: ModelConfig): number =>
  4 * 2 * layers * kvHeads * Math.ceil(headDim / 16) * 16;

/** A budget that cannot be used. */
export class BadCacheBudget extends Error {
  override readonly name = 'BadCacheBudget';
}

/** Bytes: `LONGHAUL_KV_CACHE_MIB`, else a sixteenth of the memory and at most a GiB. Errors: `BadCacheBudget`. */
export function cacheBudget(env: NodeJS.ProcessEnv = process.env): number {
  const given = env[variable];
  if (given === undefined || given === '')
    return Math.floor(Math.min(most, Math.min(totalmem(), process.constrainedMemory() || Infinity) * share));
  const mebibytes = Number(given);
  if (!Number.isSafeInteger(mebibytes) || mebibytes < 1)
    throw new BadCacheBudget(`${variable} = ${JSON.stringify(given)}: a whole number of MiB >= 1 is needed`);
  return mebibytes * 2 ** 20;
}

/** Blocks of `blockSize` positions within `bytes`. Errors: `BadCacheBudget` where the longest context does not fit. */
export function blocksWithin(bytes: number, config: ModelConfig, positions: number, blockSize: number): number {
  const blocks = Math.floor(bytes / (bytesPerPosition(config) * blockSize));
  const needed = Math.ceil(positions / blockSize);
  if (blocks >= needed) return blocks;
  const mebibytes = Math.ceil((needed * blockSize * bytesPerPosition(config)) / 2 ** 20);
  throw new BadCacheBudget(
    `the key-value cache has ${bytes} bytes, and one context of ${positions} tokens of this model needs ${mebibytes} MiB: raise ${variable} to ${mebibytes} or more, or lower the longest context`,
  );
}
