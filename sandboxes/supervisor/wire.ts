/**
 * Fields of the supervisor's frames: little-endian integers, and bytes after their 32-bit length (see supervisor.c).
 */

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

export class FrameWriter {
  private readonly parts: Buffer[] = [];

  u8(value: number): this {
    this.parts.push(Buffer.from([value]));
    return this;
  }

  u32(value: number): this {
    const part = Buffer.allocUnsafe(4);
    part.writeUInt32LE(value >>> 0);
    this.parts.push(part);
    return this;
  }

  /** `value` is a non-negative safe integer. */
  u64(value: number): this {
    const part = Buffer.allocUnsafe(8);
    part.writeBigUInt64LE(BigInt(value));
    this.parts.push(part);
    return this;
  }

  bytes(value: Uint8Array | string): this {
    const part =
      typeof value === 'string' ? Buffer.from(value) : Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    this.u32(part.length);
    this.parts.push(part);
    return this;
  }

  finish(): Buffer {
    return Buffer.concat(this.parts);
  }
}

/** Reads fields in order. Errors: `RangeError` if a field is missing. */
export class FrameReader {
  private at = 0;
  private readonly frame: Buffer;

  constructor(frame: Buffer) {
    this.frame = frame;
  }

  u8(): number {
    return this.frame.readUInt8(this.advance(1));
  }

  u32(): number {
    return this.frame.readUInt32LE(this.advance(4));
  }

  i32(): number {
    return this.frame.readInt32LE(this.advance(4));
  }

  u64(): number {
    return Number(this.frame.readBigUInt64LE(this.advance(8)));
  }

  bytes(): Buffer {
    const length = this.u32();
    const start = this.advance(length);
    return this.frame.subarray(start, start + length);
  }

  text(): string {
    return decoder.decode(this.bytes());
  }

  private advance(length: number): number {
    const start = this.at;
    if (start + length > this.frame.length) throw new RangeError('the frame ends too early');
    this.at = start + length;
    return start;
  }
}
