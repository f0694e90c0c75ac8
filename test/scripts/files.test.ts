/** Hunts incomplete artefacts that are taken for complete ones. */

import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { hashInputs, makeDirectoryOnce, swapLink } from '../../scripts/setup/files.mjs';

let directory: string;
let fills: number;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'longhaul-files-'));
  fills = 0;
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const fill = async (aside: string) => {
  fills += 1;
  mkdirSync(join(aside, 'lib'));
  writeFileSync(join(aside, 'lib', 'library.so'), 'a library');
  return { wheels: { 'a.whl': 'hash' } };
};

test('a folder is made once, and its stamp can be read afterwards', async () => {
  const path = join(directory, 'made');
  await makeDirectoryOnce(path, fill);
  const stamp = await makeDirectoryOnce(path, fill);
  expect(fills).toBe(1);
  expect(stamp).toMatchObject({ wheels: { 'a.whl': 'hash' }, files: { 'lib/library.so': 9 } });
});

test('a folder that could not be made does not exist, and no temporary folder is left', async () => {
  const path = join(directory, 'made');
  const failing = async (aside: string) => {
    await fill(aside);
    throw new Error('the network went away');
  };
  await expect(makeDirectoryOnce(path, failing)).rejects.toThrow('the network went away');
  expect(readdirSync(directory)).toEqual([]);
});

test('the temporary folder of a killed process is removed by the next one', async () => {
  const path = join(directory, 'made');
  mkdirSync(`${path}.partial-${2 ** 22 + 1}-abcd`);
  mkdirSync(`${path}.partial-${process.pid}-abcd`);
  await makeDirectoryOnce(path, fill);
  expect(readdirSync(directory).toSorted()).toEqual(['made', `made.partial-${process.pid}-abcd`]);
});

test.each<[string, (path: string) => void]>([
  ['without its stamp', (path) => rmSync(join(path, '.complete.json'))],
  ['with a file that was cut', (path) => truncateSync(join(path, 'lib', 'library.so'), 3)],
  ['with a file that is gone', (path) => rmSync(join(path, 'lib', 'library.so'))],
])('a folder %s is made again', async (_name, damage) => {
  const path = join(directory, 'made');
  await makeDirectoryOnce(path, fill);
  damage(path);
  await makeDirectoryOnce(path, fill);
  expect(fills).toBe(2);
  expect(readFileSync(join(path, 'lib', 'library.so'), 'utf8')).toBe('a library');
});

test('a link replaces a folder or another link, and a right link is not changed', () => {
  const link = join(directory, 'deps');
  mkdirSync(join(link, 'made', 'by', 'hand'), { recursive: true });
  expect(swapLink('/first', link)).toBe(true);
  expect(readlinkSync(link)).toBe('/first');
  expect(swapLink('/second', link)).toBe(true);
  expect(readlinkSync(link)).toBe('/second');
  expect(swapLink('/second', link)).toBe(false);
  expect(readdirSync(directory)).toEqual(['deps']);
});

test('the hash of inputs changes with a name, a content and a new file', () => {
  const source = join(directory, 'source');
  mkdirSync(source);
  const seen = new Set([hashInputs([source], directory)]);
  writeFileSync(join(source, 'a.c'), 'one');
  seen.add(hashInputs([source], directory));
  writeFileSync(join(source, 'a.c'), 'two');
  seen.add(hashInputs([source], directory));
  rmSync(join(source, 'a.c'));
  writeFileSync(join(source, 'b.c'), 'two');
  seen.add(hashInputs([source], directory));
  expect(seen.size).toBe(4);
  expect(hashInputs([join(directory, 'absent')], directory)).toBe(hashInputs([], directory));
  expect(existsSync(source)).toBe(true);
});
