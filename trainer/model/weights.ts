/** A policy's weights by Hugging Face's tensor names, in float32. Their digest depends on names and values alone. */

import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { littleEndianBytes } from './safetensors-header.ts';
import { addPiece, BadSafetensors, type NamedTensor, writeSafetensors } from './safetensors.ts';
import { PieceBuffers, SafetensorsReader, type TensorPiece } from './safetensors-reader.ts';

export type Weights = Map<string, { shape: number[]; data: Float32Array }>;

export type NamedPiece = readonly [name: string, piece: TensorPiece];

/**
 * A stream of weights: all pieces of one tensor, then those of the next. A piece is valid until the next one is
 * requested. Weights in memory are such a stream, with one piece per tensor.
 */
export type WeightPieces = Iterable<NamedPiece> | AsyncIterable<NamedPiece>;

/** Converts tensors that were read to `Weights`. */
export const asWeights = (tensors: ReadonlyMap<string, NamedTensor>): Weights =>
  new Map([...tensors].map(([name, { shape, data }]) => [name, { shape: [...shape], data }]));

const indexFile = 'model.safetensors.index.json';

const isFileName = (name: unknown): name is string =>
  typeof name === 'string' && path.basename(name) === name && !['', '.', '..'].includes(name);

function weightMap(file: string, text: string): object {
  try {
    const index: unknown = JSON.parse(text);
    return Object((index as { weight_map?: unknown } | null)?.weight_map) as object;
  } catch (error) {
    throw new BadSafetensors(file, `it is not JSON: ${String(error)}`);
  }
}

/** The file of each tensor; `undefined` if one file holds all. */
async function readIndex(dir: string): Promise<ReadonlyMap<string, string> | undefined> {
  const file = path.join(dir, indexFile);
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  const entries = Object.entries(weightMap(file, text));
  if (entries.length === 0) throw new BadSafetensors(file, 'weight_map names no file');
  return new Map(
    entries.map(([tensor, shard]) => {
      if (!isFileName(shard))
        throw new BadSafetensors(file, `${JSON.stringify(shard)} is not a file beside it`, { tensor });
      return [tensor, shard];
    }),
  );
}

const byteOrder = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

/** The open file of each tensor. Errors: `BadSafetensors`. */
function placesOf(
  readers: readonly SafetensorsReader[],
  index: ReadonlyMap<string, string> | undefined,
  dir: string,
): Map<string, SafetensorsReader> {
  const places = new Map<string, SafetensorsReader>();
  for (const reader of readers) {
    for (const name of reader.names) {
      if (places.has(name)) throw new BadSafetensors(reader.file, 'another shard has it too', { tensor: name });
      places.set(name, reader);
    }
  }
  const missing = [...(index ?? [])].find(([name]) => !places.has(name));
  if (missing !== undefined)
    throw new BadSafetensors(path.join(dir, missing[1]), `${indexFile} names it, but the file does not contain it`, {
      tensor: missing[0],
    });
  return places;
}

/**
 * Reads `model.safetensors`, or the shards that its index names: all headers first, then tensors by name in byte order,
 * a piece at a time, so that memory holds one piece. Errors: `BadSafetensors`, also if index and shards disagree; the
 * file system's own.
 */
export async function* readWeights(dir: string): AsyncGenerator<NamedPiece> {
  const index = await readIndex(dir);
  const files = index === undefined ? ['model.safetensors'] : [...new Set(index.values())].sort();
  const [buffers, readers] = [new PieceBuffers(), [] as SafetensorsReader[]];
  try {
    for (const file of files) readers.push(await SafetensorsReader.open(path.join(dir, file), buffers));
    const places = placesOf(readers, index, dir);
    for (const [name, reader] of [...places].sort(([a], [b]) => byteOrder(a, b))) {
      for await (const piece of reader.pieces(name)) yield [name, piece];
    }
  } finally {
    for (const reader of readers) await reader.close();
  }
}

/** All weights in memory, each in an array of its own. Errors: those of the pieces. */
export async function gathered(pieces: WeightPieces): Promise<Weights> {
  const weights: Weights = new Map();
  for await (const [name, piece] of pieces) addPiece(weights, name, piece);
  return weights;
}

/** Errors: those of `readWeights`. */
export const loadWeights = (dir: string): Promise<Weights> => gathered(readWeights(dir));

/** Writes `model.safetensors` in `dir` as F32: to a temporary file, which is then renamed. */
export async function saveWeights(dir: string, weights: ReadonlyMap<string, NamedTensor>): Promise<void> {
  await writeSafetensors(path.join(dir, 'model.safetensors'), weights);
}

/** Bytes per call of the hash: it refuses 2 GiB, and a tensor in memory may be that large. */
const mostHashed = 2 ** 30;

/** SHA-256 over tensors, added by name in byte order: the name, a NUL, its values as little-endian float32. */
export class WeightsHash {
  readonly #hash = createHash('sha256');

  add([name, { data, from = 0 }]: NamedPiece): void {
    if (from === 0) this.#hash.update(name).update(Buffer.from([0]));
    const bytes = littleEndianBytes(data);
    for (let at = 0; at < bytes.length; at += mostHashed) this.#hash.update(bytes.subarray(at, at + mostHashed));
  }

  /** As hexadecimal digits. */
  digest(): string {
    return this.#hash.digest('hex');
  }
}

/** `WeightsHash` of tensors in memory, in any order. */
export function weightsDigest(weights: ReadonlyMap<string, NamedTensor>): string {
  const hash = new WeightsHash();
  for (const named of [...weights].sort(([a], [b]) => byteOrder(a, b))) hash.add(named);
  return hash.digest();
}
