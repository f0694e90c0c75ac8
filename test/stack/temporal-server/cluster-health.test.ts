/** Hunts a cluster that counts as ready without our search attributes: every workflow would fail on it. */

import { expect, test } from 'vitest';
import { registerOn, SearchAttributesRefused } from '../../../stack/temporal-server/cluster-health.ts';
import { SEARCH_ATTRIBUTES } from '../../../stack/temporal-server/search-attributes.ts';

const all = Object.keys(SEARCH_ATTRIBUTES);

/** A cluster with the attributes `present`; `add` handles a registration. */
function cluster(present: string[], add: (names: string[]) => void) {
  return {
    listSearchAttributes: async () => ({ customAttributes: Object.fromEntries(present.map((name) => [name, 2])) }),
    addSearchAttributes: async ({ searchAttributes }: { searchAttributes: Record<string, number> }) =>
      add(Object.keys(searchAttributes)),
  };
}

test('only what lacks is registered', async () => {
  const asked: string[][] = [];
  const service = cluster(all.slice(2), (names) => void asked.push(names));
  expect(await registerOn(service, 'default')).toEqual(all.slice(0, 2));
  expect(asked).toEqual([all.slice(0, 2)]);
});

test('what lacks and cannot be registered is an error that names it', async () => {
  const refusal = new Error('PERMISSION_DENIED');
  const service = cluster(all.slice(1), () => {
    throw refusal;
  });
  const error = await registerOn(service, 'default').catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(SearchAttributesRefused);
  expect(error).toMatchObject({
    lacking: all.slice(0, 1),
    cause: refusal,
    message: expect.stringContaining(all[0] ?? ''),
  });
});

test('what another process registered at the same time is no error', async () => {
  const present = all.slice(1);
  const service = cluster(present, (names) => {
    present.push(...names);
    throw new Error('ALREADY_EXISTS');
  });
  await expect(registerOn(service, 'default')).resolves.toEqual(all.slice(0, 1));
});
