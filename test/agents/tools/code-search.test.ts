/** Hunts answers that are stale, unbounded, differ for equal workspaces, or write into the workspace. */

import { beforeAll, describe, expect, it } from 'vitest';

import { toolRegistry } from '../../../agents/tools/registry.ts';
import { runToolCall } from '../../../agents/tools/run-tool-call.ts';
import type { Sandbox } from '../../../sandboxes/sandbox.ts';
import { openBench, sh, specOf } from '../../sandboxes/harness.ts';

const bench = await openBench();
const all = [...toolRegistry.keys()];
let sandbox: Sandbox;
let calls = 0;

const FILES = [
  {
    path: 'shop/cart.py',
    content:
      'from shop.price import total_price\n\n\nclass Cart:\n    def __init__(self):\n        self.items = []\n\n    def total(self):\n        """The sum of all items, with taxes."""\n        return total_price(self.items)\n',
  },
  { path: 'shop/price.py', content: 'RATE = 0.2\n\n\ndef total_price(items):\n    return sum(items) * (1 + RATE)\n' },
  { path: 'web/server.ts', content: 'export class Cart {\n  total(): number {\n    return 0;\n  }\n}\n' },
  { path: 'node_modules/x/index.js', content: 'function total_price() {}\n' },
  { path: 'notes.txt', content: 'total_price\n' },
];

beforeAll(async () => {
  sandbox = await bench.provider.create(specOf('code', { files: FILES }));
});

const use = async (args: Record<string, unknown>, within = sandbox): Promise<string> => {
  calls += 1;
  const call = { name: 'code_search', arguments: args };
  return (await runToolCall(call, all, within, { callId: `code-${calls}`, timeoutMs: 30_000 })).content;
};

describe('code_search', () => {
  it('finds definitions by name, by class and method, and in other capitals', async () => {
    expect(await use({ action: 'definitions', query: 'total_price' })).toBe(
      'shop/price.py:4-5: function total_price: def total_price(items):',
    );
    expect(await use({ action: 'definitions', query: 'Cart.total' })).toBe(
      'shop/cart.py:8-10: method Cart.total: def total(self):\nweb/server.ts:2-4: method Cart.total: total(): number {',
    );
    expect(await use({ action: 'definitions', query: 'cart', path: './web/' })).toBe(
      'web/server.ts:1-5: class Cart: export class Cart {',
    );
  });

  it('says which name was probably meant', async () => {
    expect(await use({ action: 'definitions', query: 'total_prise' })).toBe(
      'There is no definition of total_prise. Did you mean total_price?',
    );
    expect(await use({ action: 'outline', path: 'shop/card.py' })).toBe(
      'There is no source file shop/card.py. Did you mean shop/cart.py?',
    );
  });

  it('finds references with the definition around each', async () => {
    expect(await use({ action: 'references', query: 'total_price' })).toBe(
      [
        'shop/cart.py:1: from shop.price import total_price',
        'shop/cart.py:10: return total_price(self.items) [in Cart.total]',
        'shop/price.py:4: def total_price(items): [definition]',
      ].join('\n'),
    );
  });

  it('outlines files and folders', async () => {
    expect(await use({ action: 'outline', path: 'shop/cart.py' })).toBe(
      '4-10: class Cart\n  5-6: method __init__\n  8-10: method total',
    );
    expect(await use({ action: 'outline' })).toBe(
      'shop/cart.py: 3 definitions, 11 lines\nshop/price.py: 2 definitions, 6 lines\nweb/server.ts: 2 definitions, 6 lines',
    );
  });

  it('finds passages by words, also inside of names', async () => {
    expect((await use({ action: 'search', query: 'sum with taxes' })).split('\n')[0]).toBe(
      'shop/cart.py:8-10: method Cart.total',
    );
    expect((await use({ action: 'search', query: 'price of the total' })).split('\n')[0]).toMatch(/^shop\//);
  });

  it('sees what has changed since, and nothing that was removed', async () => {
    const other = await bench.provider.create(specOf('changing', { files: FILES }));
    await use({ action: 'definitions', query: 'Cart' }, other);
    await sh(other, 'mv shop/price.py shop/prices.py; printf "def added():\\n    pass\\n" >> shop/cart.py; rm -r web');
    expect(await use({ action: 'definitions', query: 'added' }, other)).toMatch(
      /^shop\/cart\.py:11-12: function added/,
    );
    expect(await use({ action: 'definitions', query: 'total_price' }, other)).toMatch(/^shop\/prices\.py/);
    expect(await use({ action: 'definitions', query: 'Cart' }, other)).not.toContain('web');
    // The same size and modification time: the change time is another one.
    await sh(other, 'touch -r shop/cart.py /tmp/t; sed -i s/added/adder/ shop/cart.py; touch -r /tmp/t shop/cart.py');
    expect(await use({ action: 'definitions', query: 'adder' }, other)).toMatch(/function adder/);
  });

  it('writes nothing into the workspace, and gives equal answers in equal ones', async () => {
    const same = await bench.provider.create(specOf('same', { files: FILES }));
    const before = (await sh(same, 'find . | sort | sha256sum', { fresh: true })).output;
    expect(await use({ action: 'search', query: 'cart total price items' }, same)).toBe(
      await use({ action: 'search', query: 'cart total price items' }),
    );
    expect((await sh(same, 'find . | sort | sha256sum', { fresh: true })).output).toBe(before);
  });

  it('bounds its answers', async () => {
    const wide = await bench.provider.create(specOf('wide'));
    await sh(wide, 'seq 500 | sed "s/.*/def same(): return &/" > many.py');
    const answer = await use({ action: 'definitions', query: 'same' }, wide);
    expect(answer.split('\n')).toHaveLength(51);
    expect(answer).toMatch(/\[450 more definitions; give a path to narrow it\]$/);
  });

  it.each([
    [{ action: 'definitions' }, 'Error: query is missing: give a name.'],
    [{ action: 'search', query: ' ' }, 'Error: query is missing: give words.'],
    [{ action: 'references', query: 'nothing_like_it' }, 'Nothing uses nothing_like_it.'],
    [{ action: 'search', query: 'zebra' }, 'Nothing shares a word with "zebra".'],
  ])('%j', async (args, answer) => {
    expect(await use(args)).toBe(answer);
  });
});
