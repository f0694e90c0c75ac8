/**
 * Hunts an eval that says neither split nor count and asks for tasks that the data does not have, or takes others when
 * it starts than its plan said, or when it starts again.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { stringify } from 'yaml';
import { openSweep } from '../../../activities/orchestrator/sweep/open-sweep.ts';
import { runCommandLine } from '../../../cli/run.ts';
import { type EvalRecord, evalKeys } from '../../../reports/evaluation/eval-records.ts';
import { openSqliteStore } from '../../../store/sqlite-store.ts';
import type { Task } from '../../../tasks/environment.ts';
import { defineEnvironment } from '../../../tasks/registry.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';

const task: Task = {
  messages: [{ role: 'user', content: 'Say it.' }],
  tools: [],
  gradedIn: 'none',
  grade: async () => await Promise.resolve({ code: 'graded', reward: 1, passed: true, reason: '' }),
};
function environment(name: string, splits: Readonly<Record<string, number>>): void {
  const load = async () => await Promise.resolve(task);
  defineEnvironment({ name, open: async () => await Promise.resolve({ digest: name, splits, load }) });
}
environment('few', { train: 5, 'held-out': 0, test: 3, validation: 9 });
environment('many', { train: 5, 'held-out': 1000 });
environment('only-train', { train: 5 });

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-default-tasks-'));
  vi.stubEnv('LONGHAUL_HOME', join(dir, 'home'));
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(dir, { recursive: true, force: true });
});

interface Said {
  readonly tasks?: unknown;
  readonly sources?: unknown;
  readonly error?: { readonly field: string; readonly remedy: string };
}

async function call(verb: readonly string[], tasks: object) {
  writeFileSync(join(dir, 'mine.yaml'), stringify({ policies: ['oracle'], tasks }));
  const say = async (...more: string[]) => {
    let out = '';
    const add = (text: string) => void (out += text);
    const { signal } = new AbortController();
    const around = { out: add, err: () => undefined, env: process.env, cwd: dir, signal };
    await runCommandLine([verb[0] ?? '', join(dir, 'mine.yaml'), ...verb.slice(1), ...more], around);
    return out;
  };
  return { text: await say(), document: JSON.parse(await say('--json')) as Said };
}
const plan = (tasks: object) => call(['eval', '--dry-run'], tasks);

it('without a split it takes the first of held-out, test and validation, and as many tasks as there are', async () => {
  const { text, document } = await plan({ name: 'few' });
  expect(document.tasks).toMatchObject({ split: 'test', from: 0, count: 3 });
  expect(text).toContain('few: 3 test tasks from 0 (by default: tasks.split, tasks.count)');
  expect((await plan({ name: 'few', from: 1 })).document.tasks).toMatchObject({ split: 'test', from: 1, count: 2 });
  expect((await plan({ name: 'few', split: 'train' })).text).toContain(
    '5 train tasks from 0 (by default: tasks.count)',
  );
  expect((await plan({ name: 'many' })).document.tasks).toMatchObject({ split: 'held-out', count: 200 });
  const { document: checked } = await call(['check'], { name: 'few' });
  expect(checked.sources).toMatchObject([{ splits: [{ split: 'test', tasks: 3, loaded: 3 }] }]);
});

it.each([
  [{ name: 'only-train' }, 'tasks.split', 'only-train has train'],
  [{ name: 'few', split: 'held-out' }, 'tasks.split', 'few has 0 held-out tasks'],
  [{ name: 'few', split: 'tests' }, 'tasks.split', 'did you mean test?'],
  [{ name: 'few', count: 4 }, 'tasks.count', 'give at most 3: few has 3 test tasks'],
  [{ name: 'few', from: 3 }, 'tasks.from', 'give less than 3'],
])('%j is refused before anything starts', async (tasks, field, remedy) => {
  for (const verb of [['eval', '--dry-run'], ['eval'], ['check']]) {
    const { error } = (await call(verb, tasks)).document;
    expect(error).toMatchObject({ field, remedy: expect.stringContaining(remedy) as string });
  }
});

it('the record has what it took; the same configuration is the same eval, and another number is another', async () => {
  const store = openSqliteStore(join(dir, 'home', 'store'));
  const open = async (tasks: object, execution: string) =>
    openSweep(
      { given: { policies: ['oracle'], dir: join(dir, 'evals'), tasks }, eval: 'mine', execution },
      { store, tasks: new TaskLoader(store) },
    );
  try {
    expect((await open({ name: 'few' }, '1')).round).toBe(1);
    const { config } = (await store.get<EvalRecord>(evalKeys.record('mine'))) ?? {};
    expect(config?.tasks).toEqual({ name: 'few', options: {}, split: 'test', from: 0, count: 3 });
    expect((await open({ name: 'few' }, '2')).round).toBe(2);
    expect((await open({ name: 'few', split: 'test', count: 3 }, '3')).round).toBe(3);
    await expect(open({ name: 'few', count: 2 }, '4')).rejects.toThrow('tasks.count');
  } finally {
    await store.close();
  }
});
