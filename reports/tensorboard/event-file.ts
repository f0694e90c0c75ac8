/**
 * A TensorBoard file: `Event` messages in protobuf's wire format, with the few fields that scalars need (`event.proto`,
 * `summary.proto`), each as a TFRecord.
 */

import protobuf from 'protobufjs/minimal.js';

export interface ScalarEvent {
  /** Seconds since the epoch. */
  readonly wallTime: number;
  /** Optimizer steps done. */
  readonly step: number;
  /** Tags and their values. The file stores float32. */
  readonly scalars: ReadonlyArray<readonly [tag: string, value: number]>;
}

const VARINT = 0;
const FIXED64 = 1;
const LENGTH = 2;
const FIXED32 = 5;

const key = (field: number, wireType: number) => (field << 3) | wireType;

/** Starts an `Event` with its time. */
function eventAt(wallTime: number): protobuf.Writer {
  return protobuf.Writer.create().uint32(key(1, FIXED64)).double(wallTime);
}

/** The first event of every file, with the format's name. `wallTime` in seconds since the epoch. */
export function versionEvent(wallTime: number): Uint8Array {
  return eventAt(wallTime).uint32(key(3, LENGTH)).string('brain.Event:2').finish();
}

export function scalarEvent({ wallTime, step, scalars }: ScalarEvent): Uint8Array {
  const event = eventAt(wallTime);
  // Protobuf leaves out an integer that is 0.
  if (step !== 0) event.uint32(key(2, VARINT)).int64(step);
  const summary = event.uint32(key(5, LENGTH)).fork();
  for (const [tag, value] of scalars) {
    const one = summary.uint32(key(1, LENGTH)).fork();
    one.uint32(key(1, LENGTH)).string(tag).uint32(key(2, FIXED32)).float(value).ldelim();
  }
  return summary.ldelim().finish();
}

/** Length, its CRC, the bytes, their CRC; integers little-endian. */
export function tfRecord(data: Uint8Array): Buffer {
  const record = Buffer.alloc(12 + data.length + 4);
  record.writeBigUInt64LE(BigInt(data.length), 0);
  record.writeUInt32LE(maskedCrc32c(record.subarray(0, 8)), 8);
  record.set(data, 12);
  record.writeUInt32LE(maskedCrc32c(data), 12 + data.length);
  return record;
}

const POLYNOMIAL = 0x82f63b78;

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
  return crc;
});

/** CRC-32C (Castagnoli; RFC 3720, appendix B.4). */
export function crc32c(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = (crc >>> 8) ^ (TABLE[(crc ^ byte) & 0xff] ?? 0);
  return (crc ^ 0xffffffff) >>> 0;
}

/**
 * The CRC in TFRecord files: rotated right by 15 bits, plus a constant (`crc32c::Mask` of TensorFlow). Without this,
 * the CRC of data that contains CRCs would be weak.
 */
function maskedCrc32c(bytes: Uint8Array): number {
  const crc = crc32c(bytes);
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
}
