/**
 * Hunts answers to another caller's prompt: a thread whose caller left may have finished just then, and what it says
 * last must not be taken for the next request's prompt.
 */

import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { packageRoot } from '../../../scripts/setup/paths.mjs';
import { PromptThread } from '../../../servers/openai/prompt-thread.ts';

const dir = join(packageRoot, 'examples', 'starter');
const thread = new PromptThread({ dir, name: 'starter', contextTokens: 1024 });
afterEach(() => thread.close());

const bodyOf = (prompt: string) => Buffer.from(JSON.stringify({ model: 'starter', prompt, max_tokens: 1 }));
const prepare = (prompt: string, signal = new AbortController().signal) =>
  thread.prepare({ kind: 'completion', body: bodyOf(prompt) }, signal);

/** Blocks this thread, so that it reads nothing of what the other thread says meanwhile. */
const block = (ms: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

it('a prompt that was ready when its caller left is nobody else’s', async () => {
  const own = await prepare('own');
  const left = new AbortController();
  const lost = prepare('of the caller that left', left.signal);
  block(500);
  left.abort(new Error('the caller left'));
  const next = prepare('own');
  await expect(lost).rejects.toThrow('the caller left');
  expect(await next).toEqual(own);
});
