/** The environment `text2sql`: each form of records, its prompts, what is refused, and gold and empty answers. */

import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Dataset, Task } from '../../../tasks/environment.ts';
import { environmentNamed } from '../../../tasks/registry.ts';
import { makeDefogDatabase } from '../../support/defog-databases.ts';
import { play, says, taskContext } from '../../support/play-task.ts';

const fixtures = join(import.meta.dirname, 'fixtures/defog');
let folder: string;

function makeDatabase(path: string, script: string): void {
  mkdirSync(join(folder, path, '..'), { recursive: true });
  const database = new DatabaseSync(join(folder, path));
  database.exec(script);
  database.close();
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'longhaul-text2sql-'));
  cpSync(join(fixtures, 'questions.csv'), join(folder, 'questions.csv'));
  for (const name of ['academic', 'geography', 'restaurants'])
    await makeDefogDatabase(join(fixtures, 'dumps'), name, join(folder, 'defog'));
  const script = "CREATE TABLE pet (name TEXT, age INTEGER); INSERT INTO pet VALUES ('Rex', 3), ('Tom', 5)";
  makeDatabase('plain/pets/pets.sqlite', script);
  makeDatabase('sky/spider/database/pets/pets.sqlite', script);
});
afterAll(() => rmSync(folder, { recursive: true }));

const write = (name: string, ...records: readonly unknown[]): void =>
  writeFileSync(join(folder, name), records.map((record) => JSON.stringify(record)).join('\n'));

async function open(options: object): Promise<Dataset> {
  const environment = environmentNamed('text2sql');
  return environment.open(environment.options?.parse(options), {
    path: (_name, path) => (isAbsolute(path) ? path : join(folder, path)),
  });
}

const textOf = ({ messages }: Task): string => messages.map(({ content }) => content).join('\n');
const goldOf = async (task: Task) => (await play(task, (await task.oracle?.(taskContext)) ?? [])).verdict;

describe('gold answers score 1 and empty ones do not', () => {
  it.each(
    (['skyrl', 'spider', 'bird'] as const).flatMap((verdict) =>
      (['skyrl', 'tool'] as const).map((protocol) => [verdict, protocol] as const),
    ),
  )('by the verdict %s with the protocol %s', async (verdict, protocol) => {
    const dataset = await open({
      data: { test: 'questions.csv' },
      databases: 'defog',
      format: 'defog',
      verdict,
      protocol,
    });
    expect(dataset.splits).toEqual({ test: 24 });
    for (let n = 0; n < 24; n += 1) {
      const task = await dataset.load('test', n);
      expect(await goldOf(task)).toMatchObject({ reward: 1, passed: true, parts: { format: 1, outcome: 1 } });
      const reward = verdict === 'skyrl' ? -1 : 0;
      const parts = { format: 0, outcome: 0 };
      expect((await play(task, [says('')])).verdict).toMatchObject({ code: 'graded', reward, passed: false, parts });
    }
  });
});

describe('records', () => {
  it('of Defog have several gold queries, and the schema is the database’s own', async () => {
    const task = await (
      await open({ data: { test: 'questions.csv' }, databases: 'defog', format: 'defog' })
    ).load('test', 0);
    expect(textOf(task)).toContain('Schema:\nCREATE TABLE author (');
    expect(textOf(task)).toMatch(/Question: .+\n\nWrite your thoughts in <think>/u);
    expect(task.family).toBe('group_by');
    const second =
      'SELECT author.aid, author.name FROM author WHERE author.aid IN (SELECT domain_author.aid FROM domain_author WHERE 0)';
    expect((await play(task, [says(`<think>a</think><solution>${second}</solution>`)])).verdict).toMatchObject({
      reward: 0,
    });
  });

  it('of Spider have a schema from tables.json', async () => {
    write('spider.jsonl', {
      db_id: 'pets',
      question: 'How old is Rex?',
      query: "SELECT age FROM pet WHERE name = 'Rex'",
    });
    const tables = [
      {
        db_id: 'pets',
        table_names_original: ['pet', 'owner'],
        column_names_original: [
          [-1, '*'],
          [0, 'name'],
          [0, 'age'],
          [1, 'pet'],
        ],
        column_types: ['text', 'text', 'number', 'text'],
        primary_keys: [1],
        foreign_keys: [[3, 1]],
      },
    ];
    writeFileSync(join(folder, 'tables.json'), JSON.stringify(tables));
    const options = { data: { test: 'spider.jsonl' }, databases: 'plain', format: 'spider', protocol: 'tool' };
    const task = await (await open({ ...options, tables: 'tables.json' })).load('test', 0);
    expect(textOf(task)).toContain(
      'Schema:\npet (name text primary key, age number)\nowner (pet text)\nowner.pet = pet.name',
    );
    expect(task.tools).toEqual([
      { name: 'sql', options: { database: { file: join(folder, 'plain/pets/pets.sqlite') }, seconds: 5 } },
      'finish',
    ]);
    expect(await goldOf(task)).toMatchObject({ reward: 1 });
    writeFileSync(join(folder, 'tables.json'), JSON.stringify([{ db_id: 'pets' }]));
    await expect(open({ ...options, tables: 'tables.json' })).rejects.toThrow(
      /tables\.json of Spider: 0\.table_names_original/u,
    );
  });

  it('of BIRD have evidence, a difficulty and a schema of their own', async () => {
    const record = { db_id: 'pets', question: 'Who is old?', evidence: 'old means age > 4', difficulty: 'simple' };
    write(
      'bird.jsonl',
      { ...record, SQL: 'SELECT name FROM pet WHERE age > 4' },
      { ...record, gt_sql: 'SELECT 1', sql_context: 'THE DDL' },
    );
    const dataset = await open({ data: { train: 'bird.jsonl' }, databases: 'plain', format: 'bird', verdict: 'bird' });
    const task = await dataset.load('train', 0);
    expect(textOf(task)).toContain(
      'Schema:\nCREATE TABLE pet (name TEXT, age INTEGER);\n\nHint: old means age > 4\n\nQuestion: Who is old?',
    );
    expect(task.family).toBe('simple');
    expect(await goldOf(task)).toMatchObject({ reward: 1 });
    expect(textOf(await dataset.load('train', 1))).toContain('Schema:\nTHE DDL');
  });

  it('of SkyRL-SQL have their own messages, layout and turns', async () => {
    const prompt = [
      { role: 'system', content: 'Be right.' },
      { role: 'user', content: 'How many pets?' },
    ];
    write('sky.jsonl', {
      prompt,
      env_class: 'text2sql',
      db_id: 'pets',
      data: 'spider',
      reward_spec: { ground_truth: 'SELECT count(*) FROM pet' },
      max_turns: 2,
    });
    const task = await (await open({ data: { train: 'sky.jsonl' }, databases: 'sky' })).load('train', 0);
    expect(task.messages).toEqual(prompt);
    const { steps, verdict } = await play(task, [
      says('<think>a</think><sql>SELECT nam FROM pet</sql>'),
      says('<think>b</think> I give up.'),
    ]);
    expect(steps[0]?.messages[0]?.content).toContain(
      'no such column: nam, db file: spider/database/pets/pets.sqlite\n<reminder>You have 1 turns',
    );
    expect(steps[1]).toEqual({ state: { turns: 2 }, messages: [], done: true });
    expect(verdict).toMatchObject({ reward: -1, passed: false });
  });
});

describe('a record is refused that', () => {
  const good = { db_id: 'pets', question: 'Who?', query: 'SELECT name FROM pet' };
  it.each([
    [
      'names no database that is there',
      { ...good, db_id: 'cats' },
      /record 2, field db_id: there is no database .*cats\.sqlite/u,
    ],
    ['leaves the folder', { ...good, db_id: '../plain' }, /record 2, field db_id: "\.\.\/plain" cannot be the name/u],
    ['is the folder', { ...good, db_id: '..' }, /record 2, field db_id/u],
    ['has no gold query', { ...good, query: '' }, /record 2, field query/u],
  ])('%s', async (_name, record, message) => {
    write('bad.jsonl', good, record);
    await expect(open({ data: { train: 'bad.jsonl' }, databases: 'plain', format: 'spider' })).rejects.toThrow(message);
  });

  it('belongs to another environment', async () => {
    const row = {
      prompt: 'a',
      db_id: 'pets',
      data: 'plain',
      reward_spec: { ground_truth: 'SELECT 1' },
      env_class: 'gsm8k',
    };
    write('bad.jsonl', row);
    await expect(open({ data: { train: 'bad.jsonl' }, databases: 'plain' })).rejects.toThrow(
      /record 1, field env_class/u,
    );
  });
});

it('refuses a database that is a link to a place that may not be read', async () => {
  write('link.jsonl', { db_id: 'pets', question: 'q', query: 'SELECT 1' });
  const environment = environmentNamed('text2sql');
  const options = environment.options?.parse({ data: { test: 'link.jsonl' }, databases: 'plain', format: 'spider' });
  const asked: string[] = [];
  const path = (_name: string, given: string): string => {
    const whole = isAbsolute(given) ? given : join(folder, given);
    asked.push(whole);
    if (whole.endsWith('.sqlite')) throw new Error('not allowed');
    return whole;
  };
  await expect(environment.open(options, { path })).rejects.toThrow('not allowed');
  expect(asked.at(-1)).toBe(join(folder, 'plain/pets/pets.sqlite'));
});

it('has another digest if a database changes', async () => {
  write('one.jsonl', { db_id: 'fish', question: 'Who?', query: 'SELECT name FROM fish' });
  makeDatabase('plain/fish/fish.sqlite', 'CREATE TABLE fish (name TEXT)');
  const digest = async () =>
    (await open({ data: { train: 'one.jsonl' }, databases: 'plain', format: 'spider' })).digest;
  const before = await digest();
  expect(await digest()).toBe(before);
  makeDatabase('plain/fish/fish.sqlite', "INSERT INTO fish VALUES ('Nemo')");
  expect(await digest()).not.toBe(before);
});
