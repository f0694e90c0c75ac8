/** Hunts definitions that are missed or misplaced, in each language, and texts that parsing does not survive. */

import { describe, expect, it } from 'vitest';

import { parseFile } from '../../../agents/code-search/parse-file.ts';

const symbolsOf = async (path: string, text: string): Promise<string[]> =>
  ((await parseFile(path, text))?.symbols ?? []).map(
    ({ kind, container, name, line, endLine }) =>
      `${kind} ${container === '' ? '' : `${container}.`}${name} ${line}-${endLine}`,
  );

describe('the definitions of a file', () => {
  it.each([
    [
      'a.py',
      'import os\n\nLIMIT = 3\n\nclass Pool(Base):\n    size = 1\n\n    @property\n    def free(self):\n        left = 2\n        def inner():\n            pass\n        return left\n\nasync def main():\n    pass\n',
      [
        'variable LIMIT 3-3',
        'class Pool 5-13',
        'variable Pool.size 6-6',
        'method Pool.free 9-13',
        'function Pool.free.inner 11-12',
        'function main 15-16',
      ],
    ],
    [
      'a.ts',
      'export const limit = (a: number) => a;\nexport class Pool<T> extends Base {\n  #size = 1;\n  free(): number { const x = 1; return x; }\n}\ninterface Shape { area(): number }\nexport type Name = string;\nenum Kind { A }\nfunction main() {}\n',
      [
        'variable limit 1-1',
        'class Pool 2-5',
        'variable Pool.#size 3-3',
        'method Pool.free 4-4',
        'interface Shape 6-6',
        'method Shape.area 6-6',
        'type Name 7-7',
        'enum Kind 8-8',
        'function main 9-9',
      ],
    ],
    ['a.tsx', 'export function Page() { return <div>{title}</div>; }\n', ['function Page 1-1']],
    [
      'a.go',
      'package a\n\ntype Pool struct{ size int }\n\nfunc (p *Pool) Free() int { return p.size }\n\nconst Limit = 1\n\nvar A, B = 1, 2\n\nfunc main() {}\n',
      [
        'type Pool 3-3',
        'method Free 5-5',
        'constant Limit 7-7',
        'variable A 9-9',
        'variable B 9-9',
        'function main 11-11',
      ],
    ],
    [
      'a.rs',
      'pub struct Pool { size: i32 }\nimpl Pool {\n    pub fn free(&self) -> i32 { self.size }\n}\ntrait Shape { fn area(&self) -> f64; }\nmacro_rules! twice { ($x:expr) => { $x } }\nconst LIMIT: i32 = 1;\n',
      [
        'class Pool 1-1',
        'implementation Pool 2-4',
        'method Pool.free 3-3',
        'interface Shape 5-5',
        'method Shape.area 5-5',
        'macro twice 6-6',
        'constant LIMIT 7-7',
      ],
    ],
    [
      'A.java',
      'package a;\npublic class Pool {\n  private int size;\n  Pool() {}\n  int free() { int x = 1; return size; }\n  interface Shape { double area(); }\n}\n',
      [
        'class Pool 2-7',
        'variable Pool.size 3-3',
        'method Pool.Pool 4-4',
        'method Pool.free 5-5',
        'interface Pool.Shape 6-6',
        'method Pool.Shape.area 6-6',
      ],
    ],
    [
      'a.c',
      '#define LIMIT 3\nstruct pool { int size; };\ntypedef struct pool pool_t;\nstatic int *free_of(struct pool *p)\n{\n  int x = 1;\n  return &p->size;\n}\nint count = 0;\n',
      ['macro LIMIT 1-2', 'class pool 2-2', 'type pool_t 3-3', 'function free_of 4-8', 'variable count 9-9'],
    ],
  ])('%s', async (path, text, symbols) => {
    expect(await symbolsOf(path, text)).toEqual(symbols);
  });

  it('with errors in it are those that can be read', async () => {
    expect(
      await symbolsOf('a.py', 'def good():\n    pass\n\ndef broken(:\n  ]]]\n\nclass Last:\n    pass\n'),
    ).toContain('function good 1-2');
  });

  it('of another kind of file are none', async () => {
    expect(await parseFile('a.txt', 'def f(): pass')).toBeUndefined();
  });
});

it('each name is on the lines that use it, once a line', async () => {
  const parsed = await parseFile('a.py', 'def f(x):\n    return f(x) + x\n\ny = f(1)\n# f in a comment\nz = "f"\n');
  expect(parsed?.names.get('f')).toEqual([1, 2, 4]);
  expect(parsed?.names.get('x')).toEqual([1, 2]);
});

it.each([
  ['deep', `x = ${'('.repeat(100_000)}${')'.repeat(100_000)}`],
  [
    'nested',
    `${Array.from({ length: 300 }, (_, i) => `${' '.repeat(i)}def f${i}():`).join('\n')}\n${' '.repeat(300)}pass\n`,
  ],
  ['long', `x = [${'1,'.repeat(400_000)}]`],
  ['wide', 'def f(): pass\n'.repeat(50_000)],
  ['no text', '\u0000\uFFFD'.repeat(10_000)],
])('a text that is %s ends', async (_what, text) => {
  const parsed = await parseFile('a.py', text);
  expect(parsed === undefined || parsed.symbols.length <= 5000).toBe(true);
});
