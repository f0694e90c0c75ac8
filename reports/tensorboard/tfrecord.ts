/** TFRecord's framing: length, its CRC, the bytes, their CRC; integers little-endian. */

import { maskedCrc32c } from './crc32c.ts';

export function tfRecord(data: Uint8Array): Buffer {
  const record = Buffer.alloc(12 + data.length + 4);
  record.writeBigUInt64LE(BigInt(data.length), 0);
  record.writeUInt32LE(maskedCrc32c(record.subarray(0, 8)), 8);
  record.set(data, 12);
  record.writeUInt32LE(maskedCrc32c(data), 12 + data.length);
  return record;
}
