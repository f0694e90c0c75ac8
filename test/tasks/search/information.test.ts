/** What SkyRL-Gym's `search` shows for answers of a server that have another form, word for word, in real requests. */

import { afterAll, beforeAll, expect, it } from 'vitest';
import type { TaskContext } from '../../../tasks/environment.ts';
import { searchTask } from '../../../tasks/search/search.ts';
import { type LoopbackServer, startLoopback } from '../../support/endpoint/http-server.ts';

let server: LoopbackServer;
beforeAll(async () => {
  server = await startLoopback(() => ({ body: {} }));
});
afterAll(() => server.close());

const { signal } = new AbortController();
const context = { key: 'k', signal, deadline: Number.POSITIVE_INFINITY } as TaskContext;

async function shown(answer: unknown, query = 'q'): Promise<string | undefined> {
  server.handler = () => ({ body: JSON.stringify(answer) });
  server.asked.length = 0;
  const task = searchTask(
    { id: '', asked: 'q', golden: ['x'] },
    {
      searchUrl: `${server.baseUrl}/retrieve`,
      topk: 3,
      timeoutSeconds: 30,
      k1: 1.2,
      b: 0.75,
      maxMiB: 1,
      whenDown: 'observe',
      maxTurns: 3,
      instruction: '',
    },
  );
  const told = await task.step?.(context, { turns: 0 }, `<search>${query}</search>`);
  return told?.messages[0]?.content;
}

const told = (text: string): string => `\n<information>{"result": "${text}"}</information>\n`;

it.each<[unknown, string]>([
  [[1], "'list' object has no attribute 'get'"],
  ['x', "'str' object has no attribute 'get'"],
  [{ result: 1 }, "'int' object is not iterable"],
  [{ result: [null] }, "'NoneType' object is not iterable"],
  [{ result: { a: 1 } }, "string indices must be integers, not 'str'"],
  [{ result: [[['a']]] }, 'list indices must be integers or slices, not str'],
  [{ result: [[{ document: 1.5 }]] }, "'float' object is not subscriptable"],
  [{ result: [[{ document: {} }]] }, "'contents'"],
  [{ result: [[{ document: { contents: true } }]] }, "'bool' object has no attribute 'strip'"],
])('%j', async (answer, error) => {
  expect(await shown(answer)).toBe(told(`Error processing search results: ${error}`));
});

it("strips Python's white space from queries and documents", async () => {
  const answer = { result: [[{ document: { contents: '\u001c\ufeffa\u0085' } }], {}] };
  expect(await shown(answer, '\u001cq\ufeff\u0085')).toBe(told(String.raw`Doc 1: \ufeffa\n\n---\n`));
  expect(server.asked[0]?.body).toMatchObject({ query: 'q\ufeff' });
});
