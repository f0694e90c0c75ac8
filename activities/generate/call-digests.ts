/**
 * Digests of a program's messages, one for each prefix, so that the history that an agent sends back is matched with
 * what was sampled. Two messages are equal if an API's round trip may have made one of the other: spaces around a
 * model's message, and the order and spacing of a call's arguments, do not count.
 */

import { createHash } from 'node:crypto';
import type { CallRequest } from '../../protocol/gateway.ts';
import type { Message } from '../../protocol/message.ts';

/** JSON with the keys of objects in order. */
function ordered(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(ordered);
  return Object.entries(value)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, child]) => [key, ordered(child)]);
}

function essence(message: Message): unknown {
  switch (message.role) {
    case 'assistant': {
      const calls = (message.toolCalls ?? []).map(({ name, arguments: given }) => [name, ordered(given)]);
      return ['assistant', message.content.trim(), calls];
    }
    case 'tool':
      return ['tool', message.name, message.content];
    default:
      return [message.role, message.content];
  }
}

const digest = (before: string, value: unknown): string =>
  createHash('sha256').update(before).update(JSON.stringify(value)).digest('hex').slice(0, 32);

/** The digest of a conversation that continues with `message`. */
export const saidAfter = (before: string, message: Message): string => digest(before, essence(message));

/** Of the tools alone, then after each message: one more than there are messages. */
export function prefixDigests({ messages, tools }: Pick<CallRequest, 'messages' | 'tools'>): string[] {
  const digests = [digest('', ordered(tools))];
  for (const message of messages) digests.push(saidAfter(digests.at(-1) ?? '', message));
  return digests;
}

/** Of the whole prompt. */
export const askedDigest = (request: Pick<CallRequest, 'messages' | 'tools'>): string =>
  prefixDigests(request).at(-1) ?? '';
