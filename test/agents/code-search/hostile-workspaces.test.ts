/** Hunts a workspace that holds its worker, harms the index of another one, or hides files from its own without a word. */

import { describe, expect, it } from 'vitest';
import { references } from '../../../agents/code-search/answers.ts';
import { CodeIndex } from '../../../agents/code-search/code-index.ts';
import { parseElsewhere } from '../../../agents/code-search/parse-elsewhere.ts';
import { openBench, sh, specOf } from '../../sandboxes/harness.ts';

const bench = await openBench();

describe('a hostile workspace', () => {
  it('has files of any name, pipes and loops', async () => {
    const sandbox = await bench.provider.create(specOf('names'));
    const named = String.raw`mkfifo pipe.py; ln -s . loop; for n in $'t\tab.py' $'c\x1b[31m.py' '-dash.py' ' .py' $'line\nfeed.py' $'12\t1 2 3\tspoof.py'; do echo 'def f(): pass' >"./$n"; done`;
    await sh(sandbox, named);
    const index = new CodeIndex();
    await index.update(sandbox, 'names', 30_000);
    const names = [' .py', '-dash.py', '12\t1 2 3\tspoof.py', 'c\u001B[31m.py', 't\tab.py'];
    expect(index.files.map(({ path, parsed }) => [path, parsed?.symbols.length])).toEqual(names.map((one) => [one, 1]));
    // Nothing reads the name with a line feed.
    expect(index.left).toBe(1);
  });

  it('leaves to the next call what there was no time for', async () => {
    const files = Array.from({ length: 150 }, (_, i) => ({ path: `m${i}.py`, content: 'def f(): pass\n' }));
    const sandbox = await bench.provider.create(specOf('late', { files }));
    const index = new CodeIndex();
    let time = 0;
    // The time is over after the first files.
    await index.update(sandbox, 'late-1', 30_000, () => (time += 20_000));
    expect([index.files.length, index.left]).toEqual([64, 86]);
    await index.update(sandbox, 'late-2', 30_000);
    expect([index.files.length, index.left]).toEqual([150, 0]);
  });

  it('makes no line of an answer that is not shown', () => {
    const made: number[] = [];
    const lines = new Proxy([] as string[], {
      get: (_, at) => (/^\d+$/.test(String(at)) ? (made.push(Number(at)), 'f()') : Reflect.get([], at)),
    });
    const names = new Map([['f', Array.from({ length: 1000 }, (_, i) => i + 1)]]);
    const index = { files: [{ path: 'a.py', version: '', lines, parsed: { symbols: [], names } }] };
    expect(references(index as unknown as CodeIndex, 'f', undefined)).toMatch(/\[950 more lines; /);
    expect(made).toHaveLength(50);
  });

  it('has many definitions inside of each other, and takes no memory for all their names', async () => {
    const mods = `mod ${'a'.repeat(190)}{`;
    const [hostile, good] = await Promise.all([
      parseElsewhere([{ path: 'deep.rs', text: `${mods.repeat(4900)}fn f(){}${'}'.repeat(4900)}` }]),
      parseElsewhere([{ path: 'good.py', text: 'def f(): pass\n' }]),
    ]);
    expect(good[0]?.symbols).toMatchObject([{ name: 'f' }]);
    expect(hostile[0]?.symbols).toHaveLength(4901);
    expect(Math.max(...(hostile[0]?.symbols ?? []).map(({ container }) => container.length))).toBe(1000);
  });
});
