/** Hunts an image that is built twice, a build whose fault is not named, and further folders that cannot be written. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, expect, it } from 'vitest';

import { openDockerBench, sh, specOf } from '../harness.ts';

const bench = await openDockerBench();
const { docker } = bench.provider.engine;
const base = await bench.provider.images.ensure(undefined);
const dir = mkdtempSync(join(tmpdir(), 'longhaul-build-'));
const tags = ['longhaul-test-build:1', 'longhaul-test-build:2'] as const;
afterAll(async () => {
  rmSync(dir, { recursive: true, force: true });
  for (const tag of tags)
    await docker
      .getImage(tag)
      .remove({ force: true })
      .catch(() => undefined);
});

function context(name: string, lines: readonly string[]): string {
  const folder = join(dir, name);
  mkdirSync(join(folder, 'data'), { recursive: true });
  writeFileSync(join(folder, 'data/x'), 'copied\n', { mode: 0o444 });
  writeFileSync(join(folder, 'Dockerfile'), `${lines.join('\n')}\n`);
  return folder;
}

it('builds a folder once, also for several sandboxes at a time, and gives further folders to the user', async () => {
  const lines = [`FROM ${base}`, 'RUN mkdir /tests && date +%s%N > /made', 'WORKDIR /app', 'COPY data/ ./'];
  const build = { context: context('good', lines), dockerfile: 'Dockerfile' };
  const heard: string[] = [];
  const shape = { image: tags[0], build, workdir: '/app', profile: 'swe' as const, folders: ['/tests', '/logs'] };
  await bench.provider.prepare?.(specOf('prepared', shape), (line) => heard.push(line));
  expect(heard.some((line) => /Step 2\/\d+ : RUN mkdir/u.test(line))).toBe(true);
  const made = await Promise.all(['a', 'b'].map((id) => bench.provider.create(specOf(`built-${id}`, shape))));
  const command =
    'cat x /made; mkdir -p /tests/deep /logs/deep && echo t >/tests/deep/t && ls -A /tests /logs; touch /etc/no 2>&1';
  const [one, two] = await Promise.all(made.map(async (sandbox) => (await sh(sandbox, command)).output));
  expect(one).toBe(two);
  expect(one).toMatch(/^copied\n\d+\n\/logs:\ndeep\n\n\/tests:\ndeep\n.*(denied|Read-only)/su);
  const written = await made[0]?.write({ callId: 'w', path: '/tests/a/b/c', content: Buffer.from('x'), note: '' });
  expect(written).toEqual({ note: '' });
});

it('names the step that fails, and keeps no image of it', async () => {
  const build = { context: context('bad', [`FROM ${base}`, 'RUN echo reason; exit 3']), dockerfile: 'Dockerfile' };
  const spec = specOf('unbuilt', { image: tags[1], build, workdir: '/app', profile: 'swe' });
  await expect(bench.provider.create(spec)).rejects.toThrow(/longhaul-test-build:2 cannot be built.*code: 3.*reason/su);
  await expect(docker.getImage(tags[1]).inspect()).rejects.toThrow(/no such image/iu);
});

it.each([['/etc'], ['/workspace'], ['/a/b'], ['relative'], ['/..']])(
  'refuses the further folder %s',
  async (folder) => {
    await expect(bench.provider.create(specOf('refused', { folders: [folder] }))).rejects.toThrow(
      /folders .*at the top level/u,
    );
  },
);
