/** SkyRL-Gym's own answers and rewards of `text2sql`, case by case. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Dataset } from '../../../tasks/environment.ts';
import { environmentNamed } from '../../../tasks/registry.ts';
import { play, says } from '../../support/play-task.ts';
import { readVectors, vectorsFolder } from '../../support/vectors.ts';

interface Observed {
  readonly role: string;
  readonly reminder: string;
  readonly body_match: 'exact' | 'rows_unordered' | 'truncated_unordered' | 'invalid_action_hint';
  readonly content?: string;
  readonly header?: string;
  readonly rows?: readonly string[];
  readonly prefix?: string;
  readonly header_tokens?: readonly string[];
  readonly num_rows?: number;
}

interface Case {
  readonly tag: string | null;
  readonly db_root: string;
  readonly extras: { readonly db_id: string; readonly data: string };
  readonly actions: readonly string[];
  readonly steps: ReadonlyArray<{
    readonly observations: readonly Observed[];
    readonly reward: number;
    readonly done: boolean;
  }>;
}

interface Refused {
  readonly extras: object;
  readonly expected_error: 'FileNotFoundError' | 'NotImplementedError';
}

const { text2sql: cases, text2sql_constructor_errors: refused } = readVectors<{
  readonly text2sql: readonly Case[];
  readonly text2sql_constructor_errors: readonly Refused[];
}>('gym.json');

const FOLDERS: Readonly<Record<string, string>> = {
  synsql: 'SynSQL-2.5M/databases',
  spider: 'spider/database',
  bird: 'bird/train/train_databases',
};
/** The database's path as the environment names it: below the folder of databases, the same on every machine. */
const fileOf = ({ extras: { db_id: id, data } }: Case): string => `${FOLDERS[data]}/${id}/${id}.sqlite`;

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'longhaul-gym-sql-'));
});
afterAll(async () => {
  await rm(folder, { recursive: true });
});

let files = 0;
async function open(extras: object, root: string): Promise<Dataset> {
  files += 1;
  const file = join(folder, `${files}.jsonl`);
  await writeFile(file, JSON.stringify({ prompt: 'Which query?', ...extras }));
  const environment = environmentNamed('text2sql');
  const options = environment.options?.parse({ data: { train: file }, databases: root });
  return environment.open(options, { path: (_name, path) => path });
}

function checkBody(body: string, wanted: Observed): void {
  const [header = '', ...rows] = body.split('\n');
  if (wanted.body_match === 'rows_unordered') {
    expect(header).toBe(wanted.header);
    expect(rows.toSorted()).toEqual(wanted.rows?.toSorted());
  } else if (wanted.body_match === 'truncated_unordered') {
    expect(header.startsWith(wanted.prefix ?? '?')).toBe(true);
    expect(header.slice(wanted.prefix?.length).trim().split(/\s+/u)).toEqual(wanted.header_tokens);
    expect(rows).toHaveLength(wanted.num_rows ?? -1);
  } else expect(body).not.toBe('');
}

function checkObservation(content: string, wanted: Observed, file: string): void {
  if (wanted.content !== undefined) {
    expect(content).toBe(wanted.content.replaceAll('{DB_FILE}', file));
    return;
  }
  const [start, end] = ['\n\n<observation>', `\n${wanted.reminder}</observation>\n\n`];
  expect(content.startsWith(start)).toBe(true);
  expect(content.endsWith(end)).toBe(true);
  checkBody(content.slice(start.length, -end.length), wanted);
}

describe('text2sql', () => {
  it.each(cases.map((one, i) => [i, one.tag ?? 'plain', one] as const))('case %i, %s', async (_i, _tag, one) => {
    const task = await (await open(one.extras, join(vectorsFolder, one.db_root))).load('train', 0);
    const { steps, verdict } = await play(task, one.actions.map(says));
    expect(steps).toHaveLength(one.steps.length);
    for (const [i, step] of steps.entries()) {
      const wanted = one.steps[i]!;
      expect(step.done ?? false).toBe(wanted.done);
      expect(step.messages.map(({ role }) => role)).toEqual(wanted.observations.map(({ role }) => role));
      for (const [j, message] of step.messages.entries())
        checkObservation(message.content, wanted.observations[j]!, fileOf(one));
    }
    const last = one.steps.at(-1)!;
    // Rewards before the end are 0: the verdict alone has one.
    expect(one.steps.slice(0, -1).every(({ reward }) => reward === 0)).toBe(true);
    if (last.done) expect(verdict).toMatchObject({ code: 'graded', reward: last.reward, passed: last.reward === 1 });
  });

  it.each(refused)('refuses a record that $expected_error refuses', async ({ extras, expected_error: error }) => {
    const wanted =
      error === 'FileNotFoundError' ? /record 1, field db_id: there is no database/u : /record 1, field data/u;
    await expect(open(extras, join(vectorsFolder, 'gym_sql'))).rejects.toThrow(wanted);
  });
});
