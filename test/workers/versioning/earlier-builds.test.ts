/** Hunts a build that is left without a worker, because the one that it had failed. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Worker } from '@temporalio/worker';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { EarlierBuilds } from '../../../workers/versioning/earlier-builds.ts';

const BUILD = 'build-of-a-test';
let cache: string;
beforeEach(() => {
  cache = mkdtempSync(join(tmpdir(), 'longhaul-earlier-builds-'));
  vi.stubEnv('LONGHAUL_CACHE', cache);
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(cache, { recursive: true, force: true });
});

it('a build whose worker fails gets another one in the next round', async () => {
  const bundles = join(cache, 'workflow-bundles', 'versioned');
  mkdirSync(bundles, { recursive: true });
  writeFileSync(join(bundles, `${BUILD}.js`), '');
  const said: string[] = [];
  let fail: (error: Error) => void = () => undefined;
  let made = 0;
  const create = async () => {
    made += 1;
    const run = () => new Promise<void>((_resolve, reject) => (fail = reject));
    return await Promise.resolve({ run, shutdown: () => undefined } as unknown as Worker);
  };
  const earlier = new EarlierBuilds({
    unfinished: async () => await Promise.resolve([BUILD]),
    create,
    say: (line) => said.push(line),
  });
  await earlier.adjust();
  await earlier.adjust();
  expect([made, earlier.builds]).toEqual([1, [BUILD]]);
  fail(new Error('the server is gone'));
  await expect.poll(() => earlier.builds).toEqual([]);
  expect(said.at(-1)).toBe(`Build ${BUILD}: the server is gone`);
  await earlier.adjust();
  expect([made, earlier.builds]).toEqual([2, [BUILD]]);
});
