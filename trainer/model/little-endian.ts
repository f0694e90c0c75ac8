/** Files are little-endian, whatever the machine is. */

export const littleEndian = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

/** Little-endian bytes of `data`, without a copy where the machine is little-endian itself. */
export function littleEndianBytes(data: Float32Array): Uint8Array {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  if (littleEndian) return bytes;
  return Buffer.from(bytes).swap32();
}
