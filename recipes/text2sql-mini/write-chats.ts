/**
 * Writes chats of `text2sql-mini` for `longhaul sft`, as JSON Lines: the task's messages, a scripted policy's, and the
 * environment's own answers. The same arguments write the same bytes.
 *
 *     node recipes/text2sql-mini/write-chats.ts --out chats.jsonl --count 6000 --quality mixed
 */

import { createWriteStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import type { Message } from '../../protocol/message.ts';
import type { TaskContext } from '../../tasks/environment.ts';
import { demonstrate, QUALITIES, type Quality } from '../../tasks/sql/mini/demonstrations.ts';
import { text2sqlMini } from '../../tasks/sql/mini/environment.ts';
import { makeMiniProblem } from '../../tasks/sql/mini/problem.ts';
import { textOf } from '../../tasks/sql/protocol.ts';

/** Of a split that no run draws from: a policy is trained on other tasks than those that it learns from. */
const SPLIT = 'chats';

/** Chat number `n`: a function of its arguments only. Errors: those of running SQL. */
export async function miniChat(n: number, quality: Quality): Promise<readonly Message[]> {
  const dataset = await text2sqlMini.open(text2sqlMini.options.parse({}));
  const task = await dataset.load(SPLIT, n);
  const context = { key: `text2sql-mini-${SPLIT}-${n}`, signal: new AbortController().signal } as TaskContext;
  const messages: Message[] = [...task.messages];
  let state: unknown;
  for (const turn of demonstrate(makeMiniProblem(SPLIT, n), quality, 0)) {
    const content = textOf(turn);
    messages.push({ role: 'assistant', content });
    const answer = await task.step?.(context, state, content);
    if (answer === undefined) break;
    ({ state } = answer);
    messages.push(...answer.messages);
  }
  return messages;
}

/** `first`: number of the first chat. Errors: those of writing. */
export async function writeMiniChats(
  file: string,
  { first, count, quality }: { readonly first: number; readonly count: number; readonly quality: Quality },
): Promise<void> {
  await mkdir(dirname(resolve(file)), { recursive: true });
  const out = createWriteStream(file);
  const { promise, resolve: done, reject } = Promise.withResolvers<void>();
  out.on('error', reject).on('finish', () => done());
  for (let n = first; n < first + count; n += 1)
    out.write(`${JSON.stringify({ messages: await miniChat(n, quality) })}\n`);
  out.end();
  await promise;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      out: { type: 'string' },
      count: { type: 'string', default: '6000' },
      first: { type: 'string', default: '0' },
      quality: { type: 'string', default: 'mixed' },
    },
  });
  const [count, first] = [Number(values.count), Number(values.first)];
  const quality = QUALITIES.find((name) => name === values.quality);
  if (values.out === undefined || !(count > 0) || !(first >= 0) || quality === undefined) {
    process.stderr.write(
      `give --out FILE, and --count and --first as numbers, --quality as ${QUALITIES.join(' or ')}\n`,
    );
    process.exitCode = 2;
    return;
  }
  await writeMiniChats(values.out, { first, count, quality });
}

if (import.meta.main) await main();
