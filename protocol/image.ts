/** Images of observations: bytes in the store, and a reference in every record, message and export. */

import type { ObjectRef } from './stages.ts';

export const IMAGE_TYPES = ['image/png', 'image/jpeg', 'image/webp'] as const;
export type ImageType = (typeof IMAGE_TYPES)[number];

export interface ImageRef {
  readonly ref: ObjectRef;
  readonly mediaType: ImageType;
  readonly bytes: number;
  readonly width: number;
  readonly height: number;
}

/** Images of one answer. */
export const MOST_IMAGES = 8;
export const MOST_IMAGE_BYTES = 4 << 20;
/** Pixels of a side. */
export const LONGEST_IMAGE_SIDE = 16_384;
/** Images of one request to an endpoint: the newest. What is left out is there as text. */
export const MOST_IMAGES_SENT = 16;

/** `[image/png 640×480, sha256:0123456789ab]`. */
export function imageText({ mediaType, width, height, ref }: ImageRef): string {
  return `[${mediaType} ${width}×${height}, ${ref.slice(0, 'sha256:'.length + 12)}]`;
}
