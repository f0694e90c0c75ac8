/**
 * Hunts items that are lost because they are found while the consumer is busy; polling that continues, or keeps a
 * process alive, after the consumer has left; and unhandled errors.
 */

import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, vi } from 'vitest';
import { packageRoot } from '../../scripts/setup/paths.mjs';
import { type Found, lookOn } from '../../client/look-on.ts';

/** Finds one number after the other; `last` is the last one. */
function counting(last: number) {
  const found = { looks: 0 };
  const look = async (): Promise<Found<number>> => ({ items: [(found.looks += 1)], over: found.looks === last });
  return { found, look };
}
const takeAll = async (items: AsyncIterable<number>) => {
  const taken: number[] = [];
  for await (const item of items) taken.push(item);
  return taken;
};

it('looks on while its taker is busy, and gives all in order', async () => {
  const { found, look } = counting(5);
  const taken: number[] = [];
  for await (const item of lookOn(look, 1)) {
    if (item === 1) await vi.waitFor(() => expect(found.looks).toBe(5), { timeout: 120_000 });
    taken.push(item);
  }
  expect(taken).toEqual([1, 2, 3, 4, 5]);
});

it('does not look before it is asked, nor after it was left', async () => {
  const { found, look } = counting(0);
  const items = lookOn(look, 1);
  await sleep(20);
  expect(found.looks).toBe(0);
  for await (const item of items) if (item === 3) break;
  const thrown = lookOn(look, 1);
  await thrown.next();
  await expect(thrown.throw(new Error('enough'))).rejects.toThrow('enough');
  const { looks } = found;
  await sleep(50);
  expect(found.looks - looks).toBeLessThanOrEqual(1);
});

it('passes an error on when what was found before has been taken', async () => {
  let looks = 0;
  const look = async (): Promise<Found<number>> => {
    if ((looks += 1) === 3) throw new Error('gone');
    return { items: [looks], over: false };
  };
  const items = lookOn(look, 1);
  expect(await items.next()).toEqual({ done: false, value: 1 });
  await vi.waitFor(() => expect(looks).toBe(3), { timeout: 120_000 });
  expect(await items.next()).toEqual({ done: false, value: 2 });
  await expect(items.next()).rejects.toThrow('gone');
  expect(await items.next()).toEqual({ done: true, value: undefined });
});

it('ends at once by a signal, whatever was found and whoever waits', async () => {
  const stop = new AbortController();
  const { look } = counting(0);
  const items = lookOn(look, 1, stop.signal);
  await items.next();
  const waiting = lookOn(() => new Promise<never>(() => undefined), 1, stop.signal).next();
  await sleep(20);
  stop.abort(new Error('by its user'));
  await expect(waiting).rejects.toThrow('by its user');
  await expect(items.next()).rejects.toThrow('by its user');
  await expect(takeAll(lookOn(look, 1, stop.signal))).rejects.toThrow('by its user');
});

/** How a program ends that runs `body` with an endless `items`. */
function program(body: string) {
  const module = JSON.stringify(join(packageRoot, 'client', 'look-on.ts'));
  const code = `import { lookOn } from ${module};
    let looks = 0;
    const items = lookOn(async () => ({ items: (looks += 1) === 5 ? [5] : [], over: false }), 20);
    ${body}`;
  const { status, stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', code], {
    encoding: 'utf8',
    timeout: 30_000,
  });
  return { status, stdout };
}

it('keeps a program alive for as long as it waits, and no longer', () => {
  expect(program('const { value } = await items.next(); console.log(value);')).toEqual({ status: 0, stdout: '5\n' });
});
