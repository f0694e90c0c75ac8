/**
 * GSM8K's own records as `examples/environments/word-problems.ts` reads and grades them. Why: a gold answer that scores
 * 0, or a wrong one that scores 1, makes every run on it worthless.
 */
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { chatSchema } from '../../recipes/sft/chat-records.ts';
import { readRecords } from '../../tasks/data/read-records.ts';
import type { Dataset, Task, TaskContext } from '../../tasks/environment.ts';
import { environmentNamed } from '../../tasks/registry.ts';

vi.mock('longhaul', async () => await import('../../client/index.ts'));
await import('../../examples/environments/word-problems.ts');

const folder = join(import.meta.dirname, 'fixtures', 'gsm8k');
const open = (): Promise<Dataset> =>
  environmentNamed('word-problems').open(
    { train: 'train.jsonl', test: 'test.jsonl' },
    { path: (_name, path) => join(folder, path) },
  );
const context = { key: 'word-problems-test-0', signal: new AbortController().signal } as TaskContext;

async function gradeOf(task: Task, answer: string) {
  const work = {
    transcript: [],
    answer,
    finish: 'answer',
    turns: 1,
    artifact: new Uint8Array(),
    state: undefined,
    turnRewards: [],
  };
  return task.grade(context, work as Parameters<Task['grade']>[1]);
}

it('every gold solution scores 1, an empty answer 0, and no sandbox or tool is asked for', async () => {
  const dataset = await open();
  expect(dataset.splits).toEqual({ train: 16, test: 8 });
  for (const [split, size] of Object.entries(dataset.splits)) {
    for (let n = 0; n < size; n += 1) {
      const task = await dataset.load(split, n);
      expect(task).not.toHaveProperty('sandboxes');
      expect(task.tools).toEqual([]);
      const [gold] = (await task.oracle?.(context)) ?? [];
      expect(await gradeOf(task, gold?.content ?? '')).toMatchObject({ reward: 1, passed: true, parts: { format: 1 } });
      expect(await gradeOf(task, '')).toMatchObject({ reward: 0, passed: false, parts: { format: 0 } });
    }
  }
});

it.each([
  [4, '#### 2,125', true],
  [4, '#### 2125', true],
  [4, 'It is 2125.', true],
  [4, '#### 2.125', false],
  [4, 'I count 2125, so #### 2126', false],
  [5, '#### -10', true],
  [5, '#### 10', false],
  [7, '#### $1,450,000', true],
])('test task %i: %j is right: %s', async (index, answer, passed) => {
  const task = await (await open()).load('test', index);
  expect(await gradeOf(task, answer)).toMatchObject({ passed, reward: Number(passed) });
});

it('the same file is pairs for supervised training', async () => {
  const form = { messages: 'messages', prompt: 'question', answer: 'answer', loss: 'all' } as const;
  const { rows } = await readRecords(join(folder, 'train.jsonl'), chatSchema(form));
  expect(rows).toHaveLength(16);
  expect(rows[0]?.turns.at(-1)).toMatchObject({
    trained: true,
    message: { content: expect.stringMatching(/#### 72$/u) },
  });
});
