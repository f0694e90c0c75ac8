/** `view_image`: shows an image file of the sandbox. A policy that takes no images reads its type and its size. */

import { MOST_IMAGE_BYTES } from '../../protocol/image.ts';
import { readImageHeader } from './image-header.ts';
import { makeTool } from './tool.ts';

export const viewImage = makeTool({
  name: 'view_image',
  description: 'Shows an image file: PNG, JPEG or WebP, of at most 4 MiB.',
  parameters: { path: { type: 'string', description: 'Path of the image, absolute or from the working folder.' } },
  required: ['path'],
  images: true,
  onlyReads: () => true,

  async run(args, sandbox) {
    const path = args.text('path');
    const found = await sandbox.read(path, MOST_IMAGE_BYTES);
    if (found.kind === 'too-large') throw args.wrong('path', `is too large: ${path} has ${found.bytes} bytes.`);
    if (found.kind === 'denied') throw args.wrong('path', `cannot be opened: ${found.reason}.`);
    if (found.kind !== 'file') throw args.wrong('path', `must be a file: ${path} is ${found.kind}.`);
    const header = readImageHeader(found.content);
    if (header === undefined) throw args.wrong('path', `must be a PNG, JPEG or WebP image: ${path} is none.`);
    const { mediaType, width, height } = header;
    return { text: `${path}: ${mediaType}, ${width}×${height} pixels`, images: [found.content] };
  },
});
