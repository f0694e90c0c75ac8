/** Options and fields that the environments of code problems share. */

import { z } from 'zod';
import type { Message } from '../../protocol/message.ts';

/** Where code is run, and with which bounds. Each environment adds `seconds`. */
export const boundOptions = {
  memoryMiB: z.int().min(64).max(65_536).default(1024),
  /** An image with python3. Without one, the sandboxes' own Python. */
  image: z.string().min(1).optional(),
};

/** A prompt: a text, or messages of system and user. */
export const prompts = z.union([
  z.string().min(1),
  z.array(z.object({ role: z.enum(['system', 'user', 'assistant']), content: z.string() })).min(1),
]);

export const messagesOf = (prompt: z.infer<typeof prompts>): readonly Message[] =>
  typeof prompt === 'string' ? [{ role: 'user', content: prompt }] : prompt;
