/** Chats for `longhaul sft`, one JSON line each, in OpenAI's form. */

import { createWriteStream, mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { pipeline } from 'node:stream/promises';

/** `weight: 0`: context, not trained. */
export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  readonly content: string;
  readonly name?: string;
  readonly weight?: 0;
  readonly tool_calls?: ReadonlyArray<{
    readonly function: { readonly name: string; readonly arguments: Readonly<Record<string, string>> };
  }>;
}

export const user = (content: string): ChatMessage => ({ role: 'user', content });
export const said = (content: string): ChatMessage => ({ role: 'assistant', content });
export const called = (name: string, args: Readonly<Record<string, string>>): ChatMessage => ({
  role: 'assistant',
  content: '',
  tool_calls: [{ function: { name, arguments: args } }],
});
export const observed = (name: string, content: string): ChatMessage => ({ role: 'tool', name, content });

/** Writes chats 0 to `count` - 1 into a file. */
export async function writeChats(
  path: string,
  count: number,
  chat: (n: number) => readonly ChatMessage[],
): Promise<void> {
  mkdirSync(dirname(path), { recursive: true });
  const lines = function* () {
    for (let n = 0; n < count; n += 1) yield `${JSON.stringify({ messages: chat(n) })}\n`;
  };
  await pipeline(lines, createWriteStream(path));
}
