/** Tasks of records for tests: a file is written and read, and answers are graded as a rollout's are. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { resolveOptions } from '../../../modules/options.ts';
import type { Verdict } from '../../../protocol/stages.ts';
import type { Dataset, Environment, Task, TaskContext, Work } from '../../../tasks/environment.ts';

/** The dataset of an environment with the given records as its split `test`. */
export async function datasetWith<Options>(
  environment: Environment<Options>,
  records: readonly unknown[],
  options: Readonly<Record<string, unknown>> = {},
): Promise<Dataset> {
  const folder = await mkdtemp(join(tmpdir(), 'longhaul-answers-'));
  try {
    await writeFile(join(folder, 'test.jsonl'), records.map((one) => JSON.stringify(one)).join('\n'));
    const given = resolveOptions(
      environment as Environment,
      { data: { test: 'test.jsonl' }, ...options },
      'task.options',
    ) as Options;
    return await environment.open(given, { path: (_name, path) => resolve(folder, path) });
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** The task of the first record. */
export async function openedWith<Options>(
  environment: Environment<Options>,
  records: readonly unknown[],
  options: Readonly<Record<string, unknown>> = {},
): Promise<Task> {
  return (await datasetWith(environment, records, options)).load('test', 0);
}

export const workOf = (answer: string, more: Partial<Work> = {}): Work => ({
  transcript: [],
  answer,
  finish: 'answer',
  turns: 1,
  artifact: new Uint8Array(),
  state: undefined,
  turnRewards: [],
  ...more,
});

/** The verdict on an answer. */
export const answered = (task: Task, answer: string, ctx: Partial<TaskContext> = {}): Promise<Verdict> =>
  task.grade(ctx as TaskContext, workOf(answer));
