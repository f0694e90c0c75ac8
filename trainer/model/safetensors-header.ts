/** The header of a safetensors file: its length in 8 bytes, then JSON with each tensor's place. There are no gaps. */

import type { FileHandle } from 'node:fs/promises';

/** A safetensors file that is damaged or contradicts itself. */
export class BadSafetensors extends Error {
  override readonly name = 'BadSafetensors';
  readonly file: string;
  readonly tensor: string | undefined;
  readonly expectedBytes: number | undefined;
  readonly actualBytes: number | undefined;
  constructor(
    file: string,
    problem: string,
    at: { tensor?: string; expectedBytes?: number; actualBytes?: number } = {},
  ) {
    const where = at.tensor === undefined ? '' : `, tensor ${at.tensor}`;
    const sizes =
      at.expectedBytes === undefined ? '' : ` (expected ${at.expectedBytes} bytes, found ${at.actualBytes ?? 0})`;
    super(`${file}${where}: ${problem}${sizes}`);
    this.file = file;
    this.tensor = at.tensor;
    this.expectedBytes = at.expectedBytes;
    this.actualBytes = at.actualBytes;
  }
}

export interface Entry {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly begin: number;
  readonly end: number;
}

/** Bytes per number. */
export const sizes: Readonly<Record<string, number>> = { F32: 4, F16: 2, BF16: 2 };
const maxHeaderBytes = 100_000_000;

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

function parseEntry(file: string, name: string, value: unknown): Entry {
  const fail = (problem: string): never => {
    throw new BadSafetensors(file, problem, { tensor: name });
  };
  if (typeof value !== 'object' || value === null) return fail('its header entry is not an object');
  const { dtype, shape, data_offsets: offsets } = value as Record<string, unknown>;
  if (typeof dtype !== 'string' || !(dtype in sizes)) return fail(`dtype ${String(dtype)} is not F32, F16 or BF16`);
  if (!Array.isArray(shape) || !shape.every(isCount)) return fail('its shape is not a list of sizes');
  if (!Array.isArray(offsets) || offsets.length !== 2 || !offsets.every(isCount))
    return fail('its offsets are malformed');
  const [begin, end] = offsets as [number, number];
  const expectedBytes = shape.reduce((a, b) => a * b, 1) * (sizes[dtype] ?? 0);
  if (end - begin !== expectedBytes) {
    throw new BadSafetensors(file, 'its offsets disagree with its shape', {
      tensor: name,
      expectedBytes,
      actualBytes: end - begin,
    });
  }
  return { name, dtype, shape, begin, end };
}

function parseHeader(file: string, text: string): Entry[] {
  let header: unknown;
  try {
    header = JSON.parse(text);
  } catch (error) {
    throw new BadSafetensors(file, `the header is not JSON: ${String(error)}`);
  }
  if (typeof header !== 'object' || header === null) throw new BadSafetensors(file, 'the header is not an object');
  const entries = Object.entries(header)
    .filter(([name]) => name !== '__metadata__')
    .map(([name, value]) => parseEntry(file, name, value));
  return entries.sort((a, b) => a.begin - b.begin || a.end - b.end);
}

/** Fills `into` from the file's `position` on, up to the end of the file. Returns the number of bytes read. */
export async function fill(handle: FileHandle, into: Uint8Array, position: number): Promise<number> {
  let at = 0;
  while (at < into.length) {
    const { bytesRead } = await handle.read(into, at, into.length - at, position + at);
    if (bytesRead === 0) break;
    at += bytesRead;
  }
  return at;
}

/** Errors: `BadSafetensors`. */
export async function readHeader(file: string, handle: FileHandle): Promise<{ entries: Entry[]; dataAt: number }> {
  const { size } = await handle.stat();
  const prefix = Buffer.alloc(8);
  const found = await fill(handle, prefix, 0);
  if (found < 8) throw new BadSafetensors(file, 'too short for a header', { expectedBytes: 8, actualBytes: found });
  const length = Number(prefix.readBigUInt64LE(0));
  if (length > maxHeaderBytes) throw new BadSafetensors(file, `the header claims ${length} bytes`);
  if (size < 8 + length) {
    throw new BadSafetensors(file, 'the header is cut off', { expectedBytes: 8 + length, actualBytes: size });
  }
  const text = Buffer.alloc(length);
  await fill(handle, text, 8);
  const entries = parseHeader(file, text.toString('utf8'));
  checkLayout(file, entries, size - 8 - length);
  return { entries, dataAt: 8 + length };
}

function checkLayout(file: string, entries: readonly Entry[], available: number): void {
  let at = 0;
  for (const entry of entries) {
    if (entry.begin !== at)
      throw new BadSafetensors(file, `it begins at ${entry.begin}, not at ${at}`, { tensor: entry.name });
    if (entry.end > available) {
      throw new BadSafetensors(file, 'the file is cut off', {
        tensor: entry.name,
        expectedBytes: entry.end - entry.begin,
        actualBytes: Math.max(0, available - entry.begin),
      });
    }
    at = entry.end;
  }
  if (at !== available) {
    throw new BadSafetensors(file, 'bytes follow the last tensor', { expectedBytes: at, actualBytes: available });
  }
}

/** True if this machine is little-endian, as the files are. */
export const littleEndian = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

/** Little-endian bytes of `data`, without a copy where the machine is little-endian itself. */
export function littleEndianBytes(data: Float32Array): Uint8Array {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  if (littleEndian) return bytes;
  return Buffer.from(bytes).swap32();
}
