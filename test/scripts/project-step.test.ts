/** Hunts a step that is skipped although its result is outdated or missing. */

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { projectStep } from '../../scripts/setup/steps/project-step.mjs';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'longhaul-step-'));
  mkdirSync(join(root, 'sources'));
  writeFileSync(join(root, 'sources', 'a.c'), 'one');
  writeFileSync(
    join(root, 'build.mjs'),
    `import { appendFileSync } from 'node:fs';
     console.log('a greeting');
     export async function build(path) { appendFileSync(path, 'made '); return path; }`,
  );
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const step = () =>
  projectStep({
    root,
    cache: join(root, 'cache'),
    node: { path: process.execPath, version: process.versions.node, pinned: true },
    module: 'build.mjs',
    name: 'build',
    inputs: ['sources'],
    args: [join(root, 'made')],
  });

test('it is called again only if a source has changed or its result is missing', async () => {
  expect(await step()).toEqual({ path: join(root, 'made'), cached: false });
  expect(await step()).toMatchObject({ cached: true });
  expect(readFileSync(join(root, 'made'), 'utf8')).toBe('made ');
  writeFileSync(join(root, 'sources', 'b.c'), 'two');
  expect(await step()).toMatchObject({ cached: false });
  rmSync(join(root, 'made'));
  expect(await step()).toMatchObject({ cached: false });
  expect(readFileSync(join(root, 'made'), 'utf8')).toBe('made ');
});

test('a step that fails, or returns a path that does not exist, is an error and is retried', async () => {
  writeFileSync(join(root, 'build.mjs'), `export const build = async () => { throw new Error('no compiler'); };`);
  await expect(step()).rejects.toThrow('no compiler');
  writeFileSync(join(root, 'build.mjs'), `export const build = async () => '/nowhere/at/all';`);
  await expect(step()).rejects.toThrow('/nowhere/at/all, which does not exist');
  await expect(step()).rejects.toThrow('/nowhere/at/all, which does not exist');
});
