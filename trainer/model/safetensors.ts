/** Safetensors files as a whole: their tensors by name, in float32. */

import { open, rename, rm } from 'node:fs/promises';
import { littleEndianBytes } from './safetensors-header.ts';
import { SafetensorsReader, type TensorPiece } from './safetensors-reader.ts';

export { BadSafetensors } from './safetensors-header.ts';

export interface NamedTensor {
  readonly shape: readonly number[];
  readonly data: Float32Array;
}

/** Every tensor of the file. Errors: `BadSafetensors`. */
export async function readSafetensors(file: string): Promise<Map<string, NamedTensor>> {
  const reader = await SafetensorsReader.open(file);
  try {
    const tensors = new Map<string, { shape: number[]; data: Float32Array }>();
    for (const name of reader.names) for await (const piece of reader.pieces(name)) addPiece(tensors, name, piece);
    return tensors;
  } finally {
    await reader.close();
  }
}

/** Copies a piece into its tensor, which the first piece creates. */
export function addPiece(
  tensors: Map<string, { shape: number[]; data: Float32Array }>,
  name: string,
  { shape, data, from = 0 }: TensorPiece,
): void {
  const known = tensors.get(name) ?? { shape: [...shape], data: new Float32Array(shape.reduce((a, b) => a * b, 1)) };
  known.data.set(data, from);
  tensors.set(name, known);
}

/** Writes F32, tensors by name, to a temporary file, which is then renamed: `file` is never incomplete. */
export async function writeSafetensors(file: string, tensors: ReadonlyMap<string, NamedTensor>): Promise<void> {
  const names = [...tensors.keys()].sort();
  const header: Record<string, unknown> = { __metadata__: { format: 'pt' } };
  let at = 0;
  for (const name of names) {
    const tensor = tensors.get(name);
    if (tensor === undefined) continue;
    header[name] = { dtype: 'F32', shape: tensor.shape, data_offsets: [at, at + tensor.data.byteLength] };
    at += tensor.data.byteLength;
  }
  const json = JSON.stringify(header);
  const padded = json + ' '.repeat((8 - (Buffer.byteLength(json) % 8)) % 8);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(Buffer.byteLength(padded)));
  const aside = `${file}.partial-${process.pid}-${Math.random().toString(36).slice(2)}`;
  const handle = await open(aside, 'w');
  try {
    await handle.writeFile(Buffer.concat([length, Buffer.from(padded)]));
    // Each write continues where the last one ended.
    for (const name of names) await handle.writeFile(littleEndianBytes(tensors.get(name)?.data ?? new Float32Array()));
    await handle.sync();
  } catch (error) {
    await handle.close();
    await rm(aside, { force: true });
    throw error;
  }
  await handle.close();
  await rename(aside, file);
}
