/**
 * Hunts futures that are lost or changed when the server or a worker is killed (SIGKILL) at random moments. A request
 * id that was given once must be the same after a repetition, and its result that of an undisturbed run.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, it } from 'vitest';
import { accept, COUNT } from './killed-process.ts';
import { QUICK, TestBook } from './world.ts';

const open: TestBook[] = [];
const children: ChildProcess[] = [];
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  await Promise.all(open.splice(0).map((book) => book.close()));
});
const newBook = () => {
  const book = new TestBook();
  open.push(book);
  return book;
};

const script = fileURLToPath(new URL('./killed-process.ts', import.meta.url));
function start(what: 'accept' | 'drain', dir: string, line: (text: string) => void = () => undefined): ChildProcess {
  const child = spawn(process.execPath, [script, what, dir], { stdio: ['ignore', 'pipe', 'inherit'] });
  children.push(child);
  createInterface({ input: child.stdout! }).on('line', line);
  return child;
}
async function kill(child: ChildProcess): Promise<void> {
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
}

it('killed servers and workers lose no future and change none', async () => {
  const whole = newBook();
  await accept(whole.journal, (id) => void whole.requests.push({ id, tenant: 'ann' }));
  await whole.worker().drain('m');
  const expected = await whole.bits();

  const book = newBook();
  const acknowledged = new Map<number, Set<string>>();
  let seed = 11;
  const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
  /** A server, until it has acknowledged so many requests. */
  const serve = async (most: number): Promise<void> => {
    let number = 0;
    const enough = Promise.withResolvers<void>();
    const child = start('accept', book.dir, (line) => {
      if (line === 'end') return enough.resolve();
      acknowledged.set(number, (acknowledged.get(number) ?? new Set()).add(line));
      number += 1;
      if (number >= most) enough.resolve();
    });
    await enough.promise;
    await kill(child);
  };
  /** A worker, until a while after it has begun. */
  const work = async (milliseconds: number): Promise<void> => {
    const begun = Promise.withResolvers<void>();
    const child = start('drain', book.dir, () => begun.resolve());
    await begun.promise;
    await sleep(milliseconds);
    await kill(child);
  };
  for (const most of [9, 25, 44, Infinity]) await Promise.all([serve(most), work(random() * 200)]);
  for (let i = 0; i < 3; i += 1) await work(random() * 300);
  await book.worker({}, { ...QUICK, lost: 1000 }).drain('m');
  expect([...acknowledged.values()].map((ids) => ids.size)).toEqual(Array(COUNT).fill(1));
  for (const [id] of acknowledged.values()) book.requests.push({ id: id ?? '', tenant: 'ann' });
  expect(await book.bits()).toEqual(expected);
});
