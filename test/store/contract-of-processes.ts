/**
 * The part of a store's contract for several processes, and for one that starts again. Hunts two processes that both
 * count as the first writer, that both take the last lease, or of which one does not see what the other wrote.
 */
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openStore } from '../../store/open-store.ts';

export interface PlaceUnderTest {
  readonly url: string;
  readonly remove: () => Promise<void>;
  /** Makes the store one of another format. */
  readonly reformat: () => void;
}

const PROCESSES = 3;
const program = fileURLToPath(new URL('fixtures/store-user.ts', import.meta.url));

/** Starts processes that all do `work` at once, and returns what each reported. */
async function atOnce<T>(url: string, work: string): Promise<T[]> {
  const children = Array.from({ length: PROCESSES }, (_, n) => fork(program, [url, work, String(n)]));
  const next = (child: (typeof children)[number]) =>
    new Promise<unknown>((resolve, reject) => {
      child.once('message', resolve);
      child.once('exit', (code) => reject(new Error(`a process ended with ${code}`)));
    });
  try {
    await Promise.all(children.map(next));
    const reports = children.map(next);
    for (const child of children) child.send('go');
    return (await Promise.all(reports)) as T[];
  } finally {
    for (const child of children) child.kill();
  }
}

export function contractOfProcesses(name: string, make: () => PlaceUnderTest): void {
  let place: PlaceUnderTest;
  beforeEach(() => {
    place = make();
  });
  afterEach(() => place.remove());

  describe(`${name}: several processes`, () => {
    it('agree about the first writer of every key, and all changes are seen once', { timeout: 120_000 }, async () => {
      const reports = await atOnce<string[]>(place.url, 'put');
      for (const report of reports) expect(report).toEqual(reports[0]);
      const winners = new Set(reports[0]!.map((value) => value.split(' ')[0]));
      expect([...winners].every((winner) => ['0', '1', '2'].includes(winner!))).toBe(true);
      const store = await openStore(place.url);
      const { records } = (await store.changes(undefined, 10_000, ['k']))!;
      expect(records).toHaveLength(reports[0]!.length);
      expect(new Set(records.map(({ value }) => value))).toEqual(new Set(reports[0]));
      await store.close();
    });

    it('never hold more leases than the limit', { timeout: 120_000 }, async () => {
      const reports = await atOnce<number>(place.url, 'lease');
      const store = await openStore(place.url);
      expect([reports.reduce((a, b) => a + b), (await store.leases('sandbox')).length]).toEqual([5, 5]);
      await store.close();
    });

    it('count every start of an execution, and append every event once', { timeout: 120_000 }, async () => {
      const reports = await atOnce<number[]>(place.url, 'begin');
      expect(reports.flat().toSorted((a, b) => a - b)).toEqual(Array.from({ length: 60 }, (_, i) => i + 1));
      const store = await openStore(place.url);
      const events = await store.events('run');
      const all = [0, 1, 2].flatMap((n) => Array.from({ length: 20 }, (_, i) => `${n}-${String(i).padStart(2, '0')}`));
      expect([events.length, new Set(events.map(({ detail }) => detail))]).toEqual([all.length, new Set(all)]);
      for (const n of ['0', '1', '2']) {
        const its = events.flatMap(({ detail }) => (detail!.startsWith(n) ? [detail!] : []));
        expect(its).toEqual(all.filter((detail) => detail.startsWith(n)));
      }
      await store.close();
    });
  });

  describe(`${name}: a store that is closed`, () => {
    it('is the same when it is opened again', async () => {
      const first = await openStore(place.url);
      await first.putOnce('k', { a: 1 });
      const ref = await first.putObject(Buffer.from('x'));
      await first.begin('model:a');
      const { cursor } = (await first.changes(undefined, 10, []))!;
      await first.close();
      const second = await openStore(place.url);
      expect([await second.putOnce('k', { a: 2 }), Buffer.from(await second.getObject(ref)).toString()]).toEqual([
        { a: 1 },
        'x',
      ]);
      expect(await second.begin('model:a')).toBe(2);
      expect((await second.changes(cursor, 10, []))!.executions.map(({ key }) => key)).toEqual(['model:a']);
      await second.close();
    });

    it('is refused if it has another format, and not changed', async () => {
      await (await openStore(place.url)).close();
      place.reformat();
      for (const _ of [1, 2])
        await expect(openStore(place.url)).rejects.toMatchObject({
          name: 'StoreFormatUnknown',
          message: expect.stringContaining('use the version that made the store') as string,
        });
    });
  });
}
