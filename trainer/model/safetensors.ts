/** The safetensors format: 8 bytes of header length, a JSON header, tensors without gaps. What is read is whole. */

import { type FileHandle, open, rename, rm } from 'node:fs/promises';

export interface NamedTensor {
  readonly shape: readonly number[];
  readonly data: Float32Array;
}

/** A safetensors file that cannot be what it says it is. */
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

interface Entry {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly begin: number;
  readonly end: number;
}

const sizes: Readonly<Record<string, number>> = { F32: 4, F16: 2, BF16: 2 };
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

/** Fills `into` from the file's `position` on, as far as the file goes; returns the number of bytes. */
async function fill(handle: FileHandle, into: Uint8Array, position: number): Promise<number> {
  let at = 0;
  while (at < into.length) {
    const { bytesRead } = await handle.read(into, at, into.length - at, position + at);
    if (bytesRead === 0) break;
    at += bytesRead;
  }
  return at;
}

async function readHeader(file: string, handle: FileHandle): Promise<{ entries: Entry[]; dataAt: number }> {
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

const halfMantissa = 2 ** -24;

function halfToNumber(half: number): number {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >> 10) & 0x1f;
  const mantissa = half & 0x3ff;
  if (exponent === 0) return sign * mantissa * halfMantissa;
  if (exponent === 31) return mantissa === 0 ? sign * Infinity : NaN;
  return sign * (1024 + mantissa) * 2 ** (exponent - 25);
}

/** Bytes of a half-precision tensor that are widened at a time. */
const scratchBytes = 2 ** 20;

/** Widens `bytes` into `out`, from `at` on. */
const widen: Readonly<Record<string, (bytes: DataView, out: Float32Array, at: number) => void>> = {
  BF16: (bytes, out, at) => {
    const bits = new Uint32Array(out.buffer, out.byteOffset, out.length);
    for (let i = 0; 2 * i < bytes.byteLength; i++) bits[at + i] = bytes.getUint16(2 * i, true) << 16;
  },
  F16: (bytes, out, at) => {
    for (let i = 0; 2 * i < bytes.byteLength; i++) out[at + i] = halfToNumber(bytes.getUint16(2 * i, true));
  },
};

async function readTensor(handle: FileHandle, { dtype, begin, end }: Entry, dataAt: number, scratch: Buffer): Promise<Float32Array> {
  const wide = widen[dtype];
  const out = new Float32Array((end - begin) / (sizes[dtype] ?? 4));
  if (wide === undefined) {
    await fill(handle, new Uint8Array(out.buffer), dataAt + begin);
    if (!littleEndian) Buffer.from(out.buffer).swap32();
    return out;
  }
  for (let at = begin; at < end; at += scratch.length) {
    const bytes = scratch.subarray(0, Math.min(scratch.length, end - at));
    await fill(handle, bytes, dataAt + at);
    wide(new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), out, (at - begin) / 2);
  }
  return out;
}

/**
 * Reads one tensor after the other as float32 (F16 and BF16 are widened exactly): beside what it has given there is
 * never more in memory than one tensor and a small scratch. Errors: `BadSafetensors`.
 */
export async function* readTensors(file: string): AsyncGenerator<readonly [name: string, tensor: NamedTensor]> {
  const handle = await open(file, 'r');
  try {
    const { entries, dataAt } = await readHeader(file, handle);
    const scratch = Buffer.alloc(scratchBytes);
    for (const entry of entries) {
      yield [entry.name, { shape: entry.shape, data: await readTensor(handle, entry, dataAt, scratch) }];
    }
  } finally {
    await handle.close();
  }
}

/** Every tensor of the file. Errors: `BadSafetensors`. */
export async function readSafetensors(file: string): Promise<Map<string, NamedTensor>> {
  const tensors = new Map<string, NamedTensor>();
  for await (const [name, tensor] of readTensors(file)) tensors.set(name, tensor);
  return tensors;
}

const littleEndian = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

/** Little-endian bytes of `data`, without a copy where the machine is little-endian itself. */
export function littleEndianBytes(data: Float32Array): Uint8Array {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  if (littleEndian) return bytes;
  return Buffer.from(bytes).swap32();
}

/** Writes F32, tensors by name, aside and then renamed: `file` exists only complete. */
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
    // Each write goes on where the last one ended.
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
