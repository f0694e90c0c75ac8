/**
 * Type and size of an image, by the header of its bytes. The name of a file says nothing, and the pixels are not
 * decoded. Sources: PNG (W3C, section 5), JPEG (ITU T.81, annex B), WebP (RFC 9649).
 */

import type { ImageType } from '../../protocol/image.ts';

export interface ImageHeader {
  readonly mediaType: ImageType;
  readonly width: number;
  readonly height: number;
}

const PNG = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
const JPEG = [0xff, 0xd8, 0xff];

const startsWith = (bytes: Uint8Array, begin: readonly number[]): boolean =>
  begin.every((byte, i) => bytes[i] === byte);
const textAt = (bytes: Buffer, from: number, length: number): string => bytes.toString('latin1', from, from + length);

function png(bytes: Buffer): Omit<ImageHeader, 'mediaType'> | undefined {
  if (bytes.length < 24 || textAt(bytes, 12, 4) !== 'IHDR') return undefined;
  return { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) };
}

/** Markers that begin a frame, which has the size: SOF0 to SOF15 without DHT, JPG and DAC. */
const isFrame = (marker: number): boolean =>
  marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;
/** Markers without a length: restarts, and TEM. */
const isBare = (marker: number): boolean => (marker >= 0xd0 && marker <= 0xd7) || marker === 0x01;

function jpeg(bytes: Buffer): Omit<ImageHeader, 'mediaType'> | undefined {
  let at = 2;
  while (at + 9 <= bytes.length) {
    if (bytes[at] !== 0xff) return undefined;
    const marker = bytes[at + 1] ?? 0;
    // Any number of fill bytes may stand before a marker.
    if (marker === 0xff) at += 1;
    else if (isBare(marker)) at += 2;
    else if (isFrame(marker)) return { height: bytes.readUInt16BE(at + 5), width: bytes.readUInt16BE(at + 7) };
    else at += 2 + Math.max(2, bytes.readUInt16BE(at + 2));
  }
  return undefined;
}

function webp(bytes: Buffer): Omit<ImageHeader, 'mediaType'> | undefined {
  if (bytes.length < 30) return undefined;
  switch (textAt(bytes, 12, 4)) {
    case 'VP8 ':
      return { width: bytes.readUInt16LE(26) & 0x3fff, height: bytes.readUInt16LE(28) & 0x3fff };
    case 'VP8L': {
      const bits = bytes.readUInt32LE(21);
      return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
    }
    case 'VP8X':
      return { width: bytes.readUIntLE(24, 3) + 1, height: bytes.readUIntLE(27, 3) + 1 };
    default:
      return undefined;
  }
}

/** `undefined` if the bytes are no image of a known type, or if its size is not in its header. */
export function readImageHeader(given: Uint8Array): ImageHeader | undefined {
  const bytes = Buffer.from(given.buffer, given.byteOffset, given.byteLength);
  const [mediaType, size] = startsWith(bytes, PNG)
    ? (['image/png', png(bytes)] as const)
    : startsWith(bytes, JPEG)
      ? (['image/jpeg', jpeg(bytes)] as const)
      : textAt(bytes, 0, 4) === 'RIFF' && textAt(bytes, 8, 4) === 'WEBP'
        ? (['image/webp', webp(bytes)] as const)
        : [undefined, undefined];
  if (mediaType === undefined || size === undefined || size.width === 0 || size.height === 0) return undefined;
  return { mediaType, ...size };
}
