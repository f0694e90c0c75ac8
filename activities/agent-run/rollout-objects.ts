/**
 * Bytes that a rollout's tools put into the store. A record names each, so that they are pruned with the rollout.
 * Images of answers are checked by their headers and have limits; what is left out is said in the answer's text.
 */

import { createHash } from 'node:crypto';
import { readImageHeader } from '../../agents/tools/image-header.ts';
import type { Observation, Seen } from '../../agents/tools/tool.ts';
import { type ImageRef, LONGEST_IMAGE_SIDE, MOST_IMAGE_BYTES, MOST_IMAGES } from '../../protocol/image.ts';
import type { ObjectRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import type { Attempt, ObjectRef } from '../../protocol/stages.ts';
import type { Store } from '../../store/store.ts';

export type ObjectStore = Pick<Store, 'putOnceWithObject'>;

/** Stores the bytes as the attempt's. The same bytes have the same reference. */
export async function putObjectOf(
  attempt: Pick<Attempt, 'rollout' | 'attempt'>,
  bytes: Uint8Array,
  store: ObjectStore,
): Promise<ObjectRef> {
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const record = await store.putOnceWithObject<ObjectRecord>(keys.object(attempt, sha256), bytes, (artifact) => ({
    artifact,
  }));
  return record.artifact;
}

/** Why the image is left out; `undefined`: it is not. */
function problemOf(bytes: Uint8Array, index: number): string | undefined {
  if (index >= MOST_IMAGES) return `an answer has at most ${MOST_IMAGES}`;
  if (bytes.length > MOST_IMAGE_BYTES) return `it has ${bytes.length} bytes, at most ${MOST_IMAGE_BYTES} are taken`;
  const header = readImageHeader(bytes);
  if (header === undefined) return 'it is no PNG, JPEG or WebP';
  const { width, height } = header;
  return Math.max(width, height) > LONGEST_IMAGE_SIDE ? `it has ${width}×${height} pixels` : undefined;
}

/** The observation with references in place of its images' bytes. */
export async function withImages(
  { seen = [], ...observation }: Observation & Seen,
  attempt: Pick<Attempt, 'rollout' | 'attempt'>,
  store: ObjectStore,
): Promise<Observation> {
  const images: ImageRef[] = [];
  const notes: string[] = [];
  for (const [index, bytes] of seen.entries()) {
    const problem = problemOf(bytes, index);
    const header = problem === undefined ? readImageHeader(bytes) : undefined;
    if (header === undefined) notes.push(`[image ${index + 1} is left out: ${problem ?? 'it has no size'}]`);
    else images.push({ ref: await putObjectOf(attempt, bytes, store), bytes: bytes.length, ...header });
  }
  const content = [observation.content, ...notes].join('\n');
  return { ...observation, content, ...(images.length > 0 && { images }) };
}
