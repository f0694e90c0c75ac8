/** Hunts a file that is taken for an image by its name, or for one of another size. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { readImageHeader } from '../../../agents/tools/image-header.ts';

const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);
const JPEG = Buffer.from(
  '/9j/4AAQSkZJRgABAQEASABIAAD/2wBDAP//////////////////////////////////////////////////////////////////////////////////////wAALCAABAAEBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAAA//EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAIAQEAAD8AR//Z',
  'base64',
);
const WEBP = Buffer.from('UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA', 'base64');
const LOSSLESS = Buffer.from('UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==', 'base64');

/** With the canvas of an extended WebP. */
const extended = (width: number, height: number): Buffer => {
  const bytes = Buffer.alloc(40);
  bytes.write('RIFF', 0, 'latin1');
  bytes.write('WEBPVP8X', 8, 'latin1');
  bytes.writeUIntLE(width - 1, 24, 3);
  bytes.writeUIntLE(height - 1, 27, 3);
  return bytes;
};
const wider = (png: Buffer): Buffer => {
  const bytes = Buffer.from(png);
  bytes.writeUInt32BE(640, 16);
  bytes.writeUInt32BE(480, 20);
  return bytes;
};

it.each([
  ['png', PNG, 'image/png', 1, 1],
  ['a larger png', wider(PNG), 'image/png', 640, 480],
  ['jpeg', JPEG, 'image/jpeg', 1, 1],
  ['webp', WEBP, 'image/webp', 1, 1],
  ['lossless webp', LOSSLESS, 'image/webp', 1, 1],
  ['extended webp', extended(300, 200), 'image/webp', 300, 200],
])('%s: type and size', (_, bytes, mediaType, width, height) => {
  expect(readImageHeader(bytes)).toEqual({ mediaType, width, height });
});

it.each([
  ['text', Buffer.from('image/png')],
  ['a png of no width', Buffer.concat([PNG.subarray(0, 16), Buffer.alloc(4), PNG.subarray(20)])],
  ['a cut png', PNG.subarray(0, 20)],
  ['a cut jpeg', JPEG.subarray(0, 40)],
  ['a cut webp', WEBP.subarray(0, 20)],
  ['gif', Buffer.from('R0lGODlhAQABAAAAACw=', 'base64')],
  ['nothing', Buffer.alloc(0)],
])('%s is none', (_, bytes) => {
  expect(readImageHeader(bytes)).toBeUndefined();
});

it('any bytes after the first are read without an error, and in bounded time', () => {
  const begins = [PNG.subarray(0, 8), JPEG.subarray(0, 3), WEBP.subarray(0, 12), Buffer.alloc(0)];
  fc.assert(
    fc.property(fc.constantFrom(...begins), fc.uint8Array({ maxLength: 200 }), (begin, rest) => {
      const header = readImageHeader(Buffer.concat([begin, rest]));
      return header === undefined || (header.width > 0 && header.height > 0);
    }),
  );
});
