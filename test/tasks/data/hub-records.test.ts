/**
 * Records on a hub. Why: a worker that reads another commit than the run started with trains on other tasks, and one
 * that needs the network for what it has fails with it.
 */

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { openRecords, recordOptions } from '../../../tasks/data/record-options.ts';
import { defineEnvironment } from '../../../tasks/registry.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { openEntry } from '../../../config/open-tasks.ts';
import { parseHubFile } from '../../../trainer/hub/hub-file.ts';
import { type FakeHub, startFakeHub } from '../../trainer/hub/fake-hub.ts';

const REPO = 'someone/questions';
const lines = (...questions: string[]): Buffer =>
  Buffer.from(questions.map((question) => JSON.stringify({ question })).join('\n'));
const parquet = readFileSync(join(import.meta.dirname, '../fixtures/zstd.parquet'));
const files = (...questions: string[]): ReadonlyMap<string, Buffer> =>
  new Map([
    ['main/train.jsonl', lines(...questions)],
    ['main/test/0.parquet', parquet],
  ]);

defineEnvironment({
  name: 'hub-questions',
  options: z.strictObject({ ...recordOptions }),
  open: (options, io) =>
    openRecords(options, io, z.object({ question: z.string() }), ({ question }) => ({
      messages: [{ role: 'user', content: question }],
      tools: [],
      grade: async () => await Promise.resolve({ code: 'graded', reward: 0, passed: false, reason: '' }),
    })),
});

let hub: FakeHub;
let home: string;
beforeEach(async () => {
  hub = await startFakeHub(REPO, files('one', 'two'), 'dataset');
  home = mkdtempSync(join(tmpdir(), 'longhaul-hub-'));
  vi.stubEnv('HF_HOME', home);
  vi.stubEnv('HF_HUB_CACHE', undefined);
  vi.stubEnv('HUGGINGFACE_HUB_CACHE', undefined);
  vi.stubEnv('HF_HUB_OFFLINE', undefined);
  vi.stubEnv('HF_ENDPOINT', hub.endpoint);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await hub.close();
  rmSync(home, { recursive: true, force: true });
});

const optionsOf = (revision = '') => ({
  data: { train: `hub:${REPO}${revision}/main/train.jsonl`, test: `hub:${REPO}${revision}/main/test/0.parquet` },
});
const entry = (options: Record<string, unknown> = optionsOf()) => ({ environment: 'hub-questions', options });
const fields = { name: 'task.name', options: 'task.options' };
const open = (loader = new TaskLoader(), known?: Parameters<typeof openEntry>[4], options = optionsOf()) =>
  openEntry(entry(options), fields, loader, undefined, known);
const questions = async ({ dataset }: Awaited<ReturnType<typeof open>>) => {
  const tasks = Array.from({ length: dataset.splits['train'] ?? 0 }, (_, n) => dataset.load('train', n));
  return (await Promise.all(tasks)).map(({ messages }) => messages[0]?.content);
};

test('files of a branch are downloaded once, and the commit is pinned for every other process', async () => {
  const opened = await open();
  expect(await questions(opened)).toEqual(['one', 'two']);
  expect(opened.dataset.splits).toEqual({ train: 2, test: 6 });
  expect(opened.source.commits).toEqual({ [`${REPO}@main`]: hub.commit });
  const path = join(home, 'hub', 'datasets--someone--questions', 'snapshots', hub.commit, 'main', 'train.jsonl');
  expect(readFileSync(path)).toEqual(lines('one', 'two'));
  hub.asked.length = 0;
  const again = await new TaskLoader().openPinned(opened.source);
  expect(again.dataset.digest).toBe(opened.dataset.digest);
  expect(hub.asked).toEqual([]);
});

test('a branch that moved: a run that began reads its commit, and a new one the new commit', async () => {
  const begun = await open();
  hub.commit = 'f'.repeat(40);
  hub.files = files('three');
  const resumed = await open(new TaskLoader(), begun.source);
  expect(await questions(resumed)).toEqual(['one', 'two']);
  expect(resumed.source).toEqual(begun.source);
  const fresh = await open();
  expect(await questions(fresh)).toEqual(['three']);
  expect(fresh.source.digest).not.toBe(begun.source.digest);
});

test('the commit is part of the digest, even if no byte of the file changed', async () => {
  const before = await open();
  hub.commit = 'e'.repeat(40);
  expect((await open()).source.digest).not.toBe(before.source.digest);
});

test('without the hub, what is in the cache is read, by commit and by branch', async () => {
  const begun = await open();
  await hub.close();
  expect(await questions(await open(new TaskLoader(), begun.source))).toEqual(['one', 'two']);
  expect(await questions(await open())).toEqual(['one', 'two']);
  vi.stubEnv('HF_HUB_OFFLINE', '1');
  expect(await questions(await open())).toEqual(['one', 'two']);
  expect(await questions(await open(undefined, undefined, optionsOf(`@${hub.commit}`)))).toEqual(['one', 'two']);
});

test('without hub and cache, the error names both and the remedy', async () => {
  await hub.close();
  await expect(open()).rejects.toThrow(
    /^main\/train\.jsonl of dataset someone\/questions \(revision main\) is not in the cache .*, and http:\/\/127\.0\.0\.1:\d+ cannot be reached .*; copy it to that cache .* or give the path of a file$/,
  );
  await expect(open()).rejects.toMatchObject({ name: 'DataUnavailable', id: REPO });
});

test('a refusal of the hub and a file that it does not have are told apart', async () => {
  const missing = { data: { train: `hub:${REPO}/main/trian.jsonl` } };
  await expect(openEntry(entry(missing), fields, new TaskLoader())).rejects.toThrow(
    /the hub has no such file in commit [0-9a-f]{40}; check its path/,
  );
  hub.refuse = 401;
  await expect(open()).rejects.toThrow(/the hub refused it \(HTTP 401\); check owner, name and revision; .*HF_TOKEN/);
});

test('a process opens a dataset once, by the branch and by the commit that it found', async () => {
  const loader = new TaskLoader();
  const { source, dataset } = await open(loader);
  expect(await loader.open(source)).toBe(dataset);
});

test('a worker reads only where it may: the file is below the cache', async () => {
  const read: string[] = [];
  await open(new TaskLoader(undefined, (_field, path) => void read.push(path)));
  expect(read).toHaveLength(2);
  expect(read.every((path) => path.startsWith(join(home, 'hub')))).toBe(true);
});

test.each([
  ['hub:a/b/c.jsonl', { repo: 'a/b', revision: 'main', path: 'c.jsonl' }],
  ['hub:a/b@v1.0/x/y z.csv', { repo: 'a/b', revision: 'v1.0', path: 'x/y z.csv' }],
  ['hub:a/b@refs/convert/parquet/m/0.parquet', { repo: 'a/b', revision: 'refs/convert/parquet', path: 'm/0.parquet' }],
  ['hub:a/b@my%2Fbranch/c.json', { repo: 'a/b', revision: 'my/branch', path: 'c.json' }],
  ['hub:a/b@refs/pr/7/c.json', { repo: 'a/b', revision: 'refs/pr/7', path: 'c.json' }],
  ['hub:a/b', undefined],
  ['hub:a/b@main', undefined],
  ['hub:a/b@main/../../etc/passwd', undefined],
  ['hub:a/b@%2F..%2Fx/c.json', undefined],
  ['hub:a/b@..%2F..%2Fx/c.json', undefined],
  ['hub:../b/c.json', undefined],
  ['hub:a/b//c.json', undefined],
  ['c.json', undefined],
])('%s', (text, id) => {
  expect(parseHubFile(text)).toEqual(id);
});
