/** Hunts search attributes that no page lists, and a page that lists others. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { SEARCH_ATTRIBUTES } from '../../stack/temporal-server/search-attributes.ts';
import { root } from './markdown.ts';

it('docs/temporal-ui.md lists every search attribute with its type, and no other', () => {
  const page = readFileSync(join(root, 'docs/temporal-ui.md'), 'utf8');
  const rows = [...page.matchAll(/^\| `(Longhaul\w+)` \| (\w+) \|/gm)].map(([, name, type]) => [name, type]);
  expect(rows).toEqual(Object.entries(SEARCH_ATTRIBUTES));
  for (const [name] of page.matchAll(/Longhaul\w+/g)) expect(Object.keys(SEARCH_ATTRIBUTES)).toContain(name);
});
