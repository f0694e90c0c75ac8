/** Reads safetensors a piece at a time: memory holds only some rows of one tensor. */

import { type FileHandle, open } from 'node:fs/promises';
import { littleEndian, BadSafetensors, type Entry, fill, readHeader, sizes } from './safetensors-header.ts';

const halfMantissa = 2 ** -24;

function halfToNumber(half: number): number {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >> 10) & 0x1f;
  const mantissa = half & 0x3ff;
  if (exponent === 0) return sign * mantissa * halfMantissa;
  if (exponent === 31) return mantissa === 0 ? sign * Infinity : NaN;
  return sign * (1024 + mantissa) * 2 ** (exponent - 25);
}

/** Bytes of the file that are read at a time; or one row, if a row is longer. */
const pieceBytes = 2 ** 19;

/** Some whole rows of a tensor [..., columns], or numbers of a vector, as float32. */
export interface TensorPiece {
  /** Of the whole tensor. */
  readonly shape: readonly number[];
  readonly data: Float32Array;
  /** Index of the first value in the tensor; left out: 0. */
  readonly from?: number;
}

type Widen = (bytes: DataView, out: Float32Array) => void;

const widen: Readonly<Record<string, Widen>> = {
  BF16: (bytes, out) => {
    const bits = new Uint32Array(out.buffer, out.byteOffset, out.length);
    for (let i = 0; i < bits.length; i++) bits[i] = bytes.getUint16(2 * i, true) << 16;
  },
  F16: (bytes, out) => {
    for (let i = 0; i < out.length; i++) out[i] = halfToNumber(bytes.getUint16(2 * i, true));
  },
};

/** Buffers for pieces, as large as the largest piece. Readers that take turns can share them. */
export class PieceBuffers {
  #raw = new ArrayBuffer(0);
  #wide = new ArrayBuffer(0);

  raw(bytes: number): ArrayBuffer {
    if (this.#raw.byteLength < bytes) this.#raw = new ArrayBuffer(bytes);
    return this.#raw;
  }

  wide(bytes: number): ArrayBuffer {
    if (this.#wide.byteLength < bytes) this.#wide = new ArrayBuffer(bytes);
    return this.#wide;
  }
}

/** An open file with a valid header. */
export class SafetensorsReader {
  readonly file: string;
  /** In the file's order. */
  readonly names: readonly string[];
  readonly #handle: FileHandle;
  readonly #entries: ReadonlyMap<string, Entry>;
  readonly #dataAt: number;
  readonly #buffers: PieceBuffers;

  private constructor(
    file: string,
    handle: FileHandle,
    { entries, dataAt }: { entries: readonly Entry[]; dataAt: number },
    buffers: PieceBuffers,
  ) {
    this.file = file;
    this.names = entries.map(({ name }) => name);
    this.#handle = handle;
    this.#entries = new Map(entries.map((entry) => [entry.name, entry]));
    this.#dataAt = dataAt;
    this.#buffers = buffers;
  }

  /** Errors: `BadSafetensors`. */
  static async open(file: string, buffers = new PieceBuffers()): Promise<SafetensorsReader> {
    const handle = await open(file, 'r');
    try {
      return new SafetensorsReader(file, handle, await readHeader(file, handle), buffers);
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /**
   * A tensor as float32 (F16 and BF16 are converted exactly), in order. A piece's data is valid until the next piece of
   * any tensor is requested. A tensor without values is one empty piece. Errors: `BadSafetensors`.
   */
  async *pieces(name: string): AsyncGenerator<TensorPiece> {
    const entry = this.#entries.get(name);
    if (entry === undefined) throw new BadSafetensors(this.file, 'the file does not contain it', { tensor: name });
    const { shape, dtype, begin, end } = entry;
    const size = sizes[dtype] ?? 4;
    const row = size * (shape.length > 1 ? Math.max(1, shape.at(-1) ?? 1) : 1);
    const most = Math.max(1, Math.floor(pieceBytes / row)) * row;
    for (let at = begin; at === begin || at < end; at += most) {
      const data = await this.#read(entry, at, Math.min(most, end - at));
      yield { shape, data, from: (at - begin) / size };
    }
  }

  close(): Promise<void> {
    return this.#handle.close();
  }

  async #read({ name: tensor, dtype }: Entry, at: number, length: number): Promise<Float32Array> {
    const raw = new Uint8Array(this.#buffers.raw(length), 0, length);
    const found = await fill(this.#handle, raw, this.#dataAt + at);
    if (found < length)
      throw new BadSafetensors(this.file, 'it was cut off while it was read', {
        tensor,
        expectedBytes: length,
        actualBytes: found,
      });
    const wide = widen[dtype];
    if (wide === undefined) {
      if (!littleEndian) Buffer.from(raw.buffer, 0, length).swap32();
      return new Float32Array(raw.buffer, 0, length / 4);
    }
    const out = new Float32Array(this.#buffers.wide(2 * length), 0, length / 2);
    wide(new DataView(raw.buffer, 0, length), out);
    return out;
  }
}
