/** Hunts links and images of the documentation that lead nowhere in the repository. Not asserted: addresses on the web. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { expect, it } from 'vitest';
import { anchors, documents, links, root } from './markdown.ts';

const relative = documents()
  .flatMap(links)
  .filter(({ text }) => !/^[a-z][a-z+.-]*:/.test(text));

it('are found at all', () => {
  expect(relative.length).toBeGreaterThan(5);
  const text = '# A `b` c!\n[x](y.md#z) ![p](q.png "t") `[no](no)`\n```\n[no](no)\n```\n[w](https://x)';
  expect(links({ file: 'f', text }).map(({ line, text: target }) => [line, target])).toEqual([
    [2, 'y.md#z'],
    [2, 'q.png'],
    [6, 'https://x'],
  ]);
  expect(anchors(text)).toEqual(new Set(['a-b-c']));
});

it.each(relative.map((link) => ({ ...link, where: `${link.file}:${link.line}` })))(
  '$where: $text exists',
  ({ file, text }) => {
    const [path = '', anchor] = text.split('#');
    const target = path === '' ? file : normalize(join(dirname(file), path));
    expect(target).not.toMatch(/^\.\./);
    expect(existsSync(join(root, target)), `${target} does not exist`).toBe(true);
    if (anchor !== undefined) expect(anchors(readFileSync(join(root, target), 'utf8'))).toContain(anchor);
  },
);
