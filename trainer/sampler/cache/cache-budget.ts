/**
 * How much memory the key-value cache and adapters may take, and the context that this leaves a policy: the least of
 * what its configuration says, what the cache holds, and what the tables of positions may take.
 */

import { totalmem } from 'node:os';
import type { ModelConfig } from '../../model/config.ts';

export const CACHE_VARIABLE = 'LONGHAUL_KV_CACHE_MIB';

/** Without a setting: this share of the memory that the process may use. */
const SHARE = 1 / 16;
/** Without a setting on a GPU, whose memory is not the machine's. */
const ON_A_GPU = 2 ** 30;
/** Tables of so many positions are made in any case. */
const LEAST_POSITIONS = 2048;

export type DecoderName = 'native' | 'graph';

/** How a decoder keeps what grows with the context. */
export interface ContextLayout {
  readonly name: DecoderName;
  /** Positions of a block. */
  readonly blockSize: number;
  /** Bytes of a loaded policy's rotary tables, for one position. */
  tableBytes(config: ModelConfig): number;
}

/** The compiled decoder: one table of cosines and sines. */
export const NATIVE_LAYOUT: ContextLayout = { name: 'native', blockSize: 16, tableBytes: ({ headDim }) => 4 * headDim };

/** TensorFlow's graph: a table for each layer, with the weights of the head norms in it. */
export const GRAPH_LAYOUT: ContextLayout = {
  name: 'graph',
  blockSize: 128,
  tableBytes: ({ layers, heads, kvHeads, headDim }) => 4 * layers * (heads + kvHeads) * 2 * headDim,
};

/** Keys and values in float32; each head is padded to a multiple of 16 numbers. */
export const cacheBytesPerToken = ({ layers, kvHeads, headDim }: ModelConfig): number =>
  4 * 2 * layers * kvHeads * Math.ceil(headDim / 16) * 16;

/** Memory for adapters that are not merged: this share. */
const ADAPTERS_SHARE = 1 / 32;
export const ADAPTERS_VARIABLE = 'LONGHAUL_ADAPTERS_MIB';

/** A budget that cannot be used. */
export class BadCacheBudget extends Error {
  override readonly name = 'BadCacheBudget';
}

/**
 * Bytes: `LONGHAUL_KV_CACHE_MIB`, else a sixteenth of the memory, and on a GPU a GiB. Errors: `BadCacheBudget`.
 */
export function cacheBudget(env: NodeJS.ProcessEnv = process.env, isGpu = false): number {
  return given(env, CACHE_VARIABLE) ?? (isGpu ? ON_A_GPU : shareOfMemory(SHARE));
}

/** Bytes: `LONGHAUL_ADAPTERS_MIB`, else a 32nd of the memory. Errors: `BadCacheBudget`. */
export function adapterBudget(env: NodeJS.ProcessEnv = process.env): number {
  return given(env, ADAPTERS_VARIABLE) ?? shareOfMemory(ADAPTERS_SHARE);
}

const shareOfMemory = (share: number): number =>
  Math.floor(Math.min(totalmem(), process.constrainedMemory() || Infinity) * share);

/** A variable in MiB, as bytes. */
function given(env: NodeJS.ProcessEnv, variable: string): number | undefined {
  const value = env[variable];
  if (value === undefined || value === '') return undefined;
  const mebibytes = Number(value);
  if (!Number.isSafeInteger(mebibytes) || mebibytes < 1)
    throw new BadCacheBudget(`${variable} = ${JSON.stringify(value)}: a whole number of MiB >= 1 is needed`);
  return mebibytes * 2 ** 20;
}

/** The longest context of a policy on one engine: prompt and answer together, in tokens. */
export interface PolicyContext {
  readonly tokens: number;
  /** `max_position_embeddings` of its `config.json`. */
  readonly configured: number;
  /** What the engine's memory holds. */
  readonly inMemory: number;
  /** Of keys and values. */
  readonly bytesPerToken: number;
  readonly cacheBytes: number;
}

/** Errors: `BadCacheBudget` where not even one block fits. */
export function contextWithin(cacheBytes: number, config: ModelConfig, layout: ContextLayout): PolicyContext {
  const bytesPerToken = cacheBytesPerToken(config);
  const cached = blocksWithin(cacheBytes, config, layout.blockSize) * layout.blockSize;
  const tables = Math.max(LEAST_POSITIONS, Math.floor(cacheBytes / layout.tableBytes(config)));
  const inMemory = Math.min(cached, tables);
  const configured = config.maxPositions;
  return { tokens: Math.min(configured, inMemory), configured, inMemory, bytesPerToken, cacheBytes };
}

/** Which of its bounds a context has, and what raises it. */
export function contextBound({ configured, inMemory, bytesPerToken, cacheBytes }: PolicyContext): string {
  if (configured <= inMemory) return `max_position_embeddings of its config.json is ${configured}`;
  const mebibytes = (bytes: number) => Math.ceil(bytes / 2 ** 20);
  return (
    `the engine's cache of ${mebibytes(cacheBytes)} MiB holds ${inMemory} of the ${configured} tokens in its ` +
    'config.json; ' +
    `${CACHE_VARIABLE}=${mebibytes(configured * bytesPerToken)} holds all`
  );
}

/** Blocks of `blockSize` positions within `bytes`. Errors: `BadCacheBudget` where none fits. */
export function blocksWithin(bytes: number, config: ModelConfig, blockSize: number): number {
  const size = cacheBytesPerToken(config) * blockSize;
  const blocks = Math.floor(bytes / size);
  if (blocks >= 1) return blocks;
  throw new BadCacheBudget(
    `the key-value cache has ${bytes} bytes, and ${blockSize} tokens of this model take ${size}: ` +
      `raise ${CACHE_VARIABLE} to ${Math.ceil(size / 2 ** 20)} or more`,
  );
}
