/** Hunts a verdict that is not the product of the evaluators, a judge's word read wrongly, and code of a record that runs. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { webArena, webArenaOptions } from '../../../tasks/webarena/environment.ts';
import { contentLooks, expressionOf } from '../../../tasks/webarena/locators.ts';
import { webArenaRecord, withSites } from '../../../tasks/webarena/record.ts';
import { gradeWebArena, type PageState, pythonText } from '../../../tasks/webarena/verdict.ts';

const recordOf = (evaluation: Record<string, unknown>) =>
  webArenaRecord.parse({ sites: [], task_id: 1, start_url: 'http://a', intent: 'Do it.', eval: evaluation });
const noJudge = () => Promise.reject(new Error('no judge was to be asked'));

async function scored(evaluation: Record<string, unknown>, answer: string, state?: PageState, said?: string) {
  const asked: string[] = [];
  const ask =
    said === undefined ? noJudge : (question: unknown) => Promise.resolve((asked.push(String(question)), said));
  const verdict = await gradeWebArena(recordOf(evaluation), answer, state, ask);
  return { reward: verdict.code === 'graded' ? verdict.reward : undefined, asked };
}

const texts = (reference_answers: unknown, more: Record<string, unknown> = {}) => ({
  eval_types: ['string_match'],
  reference_answers,
  ...more,
});

it('string_match: exact, each phrase, and what a judge says', async () => {
  expect((await scored(texts({ exact_match: 'Blue Lamp' }), '"blue lamp"')).reward).toBe(1);
  expect((await scored(texts({ must_include: ['a', 'b'] }), 'xaxbx')).reward).toBe(1);
  expect((await scored(texts({ must_include: ['a', 'q'] }), 'xaxbx')).reward).toBe(0);
  expect((await scored(texts({ must_include: ['5'] }), '15')).reward).toBe(0);
  const fuzzy = texts({ fuzzy_match: ['ten days'] });
  for (const [said, reward] of [
    ['Correct.', 1],
    ['incorrect', 0],
    ['It is partially correct', 0],
  ] as const)
    expect((await scored(fuzzy, '10 days', undefined, said)).reward, said).toBe(reward);
  const { asked } = await scored(fuzzy, '10 Days', undefined, 'correct');
  expect(asked).toHaveLength(1);
  expect(asked[0]).toMatch(/reference answer: ten days\n[^]*student answer: 10 days\n/u);
  // An empty answer is wrong without a question, and so is what follows a wrong answer.
  expect(await scored(fuzzy, '')).toEqual({ reward: 0, asked: [] });
  expect((await scored(texts({ exact_match: 'x', fuzzy_match: ['y'] }), 'y')).reward).toBe(0);
});

it('N/A: exactly so, else a judge compares the reasons', async () => {
  const task = texts({ fuzzy_match: 'N/A' }, { string_note: 'there is no such order' });
  expect((await scored(task, 'N/A')).reward).toBe(1);
  const same = await scored(task, 'The order does not exist', undefined, '[same]');
  expect(same.reward).toBe(1);
  expect(same.asked[0]).toMatch(/Reason_1 = there is no such order\nReport_1 = the order does not exist\n/u);
  expect((await scored(task, 'no', undefined, 'They are different, not the same')).reward).toBe(0);
});

it('a judge without a verdict is asked once more, then about the right answer', async () => {
  const fuzzy = texts({ fuzzy_match: ['ten days'] });
  await expect(scored(fuzzy, '10 days', undefined, 'I cannot say')).rejects.toThrow('the judge says nothing');
  const record = recordOf(fuzzy);
  const asked: string[] = [];
  const ask = (question: unknown) => {
    asked.push(String(question));
    return Promise.resolve(asked.length < 3 ? 'I cannot say' : 'correct');
  };
  expect(await gradeWebArena(record, 'ignore all this', undefined, ask)).toMatchObject({ code: 'graded', reward: 0 });
  expect(asked).toHaveLength(3);
  expect(asked[1]).toMatch(/of these alone: correct, incorrect, partially correct\.$/u);
  expect(asked[2]).toMatch(/student answer: ten days\n/u);
  asked.length = 0;
  const hesitant = () => Promise.resolve(asked.push('') < 2 ? 'hm' : 'Correct');
  expect(await gradeWebArena(record, '10 days', undefined, hesitant)).toMatchObject({ reward: 1 });
});

const page = (locator: string, required_contents: Record<string, unknown>) => ({
  eval_types: ['program_html'],
  program_html: [{ url: 'last', locator, required_contents }],
});
const state = (value: unknown, url = 'http://a/b'): PageState => ({ url, values: [{ value }] });

it('program_html: exact, or each phrase with its alternatives, in what the locator found', async () => {
  expect((await scored(page('document.x', { exact_match: 'A & B' }), '', state('a &amp; b'))).reward).toBe(1);
  expect((await scored(page('document.x', { must_include: ['one |OR| two', 'c'] }), '', state('two c'))).reward).toBe(
    1,
  );
  expect((await scored(page('document.x', { must_include: ['one |OR| two', 'c'] }), '', state('two'))).reward).toBe(0);
  // One character is looked for in the text, not as a token.
  expect((await scored(page('document.x', { must_include: ['5'] }), '', state('15'))).reward).toBe(1);
  expect((await scored(page('document.x', { exact_match: 'None' }), '', state(null))).reward).toBe(1);
  expect(
    (await scored(page('document.x', { exact_match: '' }), '', { url: '', values: [{ failed: 'no such element' }] }))
      .reward,
  ).toBe(1);
  expect((await scored(page('', { must_include: ['<b>x'] }), '', state('<p><b>x</b>'))).reward).toBe(1);
  expect((await scored(page('document.x', { must_include: ['x'] }), '', { url: '', values: [] })).reward).toBe(0);
  expect((await scored(page('document.x', { must_include: ['x'] }), '')).reward).toBe(0);
  expect((await scored({ eval_types: ['program_html'], program_html: [] }, '', { url: '', values: [] })).reward).toBe(
    1,
  );
});

it('the evaluators multiply', async () => {
  const both = {
    eval_types: ['string_match', 'url_match'],
    reference_answers: { exact_match: 'x' },
    reference_url: 'http://a/b',
  };
  expect((await scored(both, 'x', state(null))).reward).toBe(1);
  expect((await scored(both, 'y', state(null))).reward).toBe(0);
  expect((await scored(both, 'x', state(null, 'http://a/c'))).reward).toBe(0);
});

it('values are texts as Python writes them', () => {
  for (const [value, text] of [
    [true, 'True'],
    [3, '3'],
    [2.5, '2.5'],
    [['a', "b'c", null], `['a', "b'c", None]`],
    [{ k: [1] }, "{'k': [1]}"],
    ['x', 'x'],
  ] as const)
    expect(pythonText(value)).toBe(text);
});

it('a func: is one of the known helpers, with plain texts, or the record is refused', () => {
  const places = { sites: {} };
  expect(expressionOf("func:gitlab_get_project_memeber_role(__page__, 'an')", places)).toContain('"@an"');
  expect(expressionOf(`func:gitlab_get_project_memeber_role(__page__, "a'b")`, places)).toContain(`"@a'b"`);
  for (const odd of [
    "func:__import__('os').system('id')",
    "func:gitlab_get_project_memeber_role(__page__, open('x').read())",
    'func:reddit_get_post_url',
    'window.x',
    'func:toString()',
  ])
    expect(() => expressionOf(odd, places), odd).toThrow(/not known|must be empty/u);
  expect(() => expressionOf("func:shopping_get_sku_latest_review_author('S')", places)).toThrow(/shoppingAdmin/u);
  const target = {
    url: "func:reddit_get_post_url('__last_url__')",
    locator: 'document.title',
    required_contents: { exact_match: 'x' },
    prep_actions: ['a()'],
  };
  expect(contentLooks([target], 'http://r/f/a/1/b', [], places)).toMatchObject([
    { url: 'http://r/f/a/1/', steps: ['a()'], expression: 'document.title' },
  ]);
});

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-webarena-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

it('marks become addresses, and records that cannot be done are left out with a word', async () => {
  expect(
    withSites(['__SHOPPING_ADMIN__/x __SHOPPING__ __MAP__ __page__'], {
      shopping: 'http://s/',
      shopping_admin: 'http://s/admin',
    }),
  ).toEqual(['http://s/admin/x http://s __MAP__ __page__']);
  const record = (more: Record<string, unknown>) => ({
    sites: ['shopping'],
    task_id: 1,
    start_url: '__SHOPPING__',
    intent: 'Go.',
    eval: { eval_types: ['url_match'], reference_url: '__SHOPPING__/x' },
    ...more,
  });
  writeFileSync(
    join(dir, 'r.json'),
    JSON.stringify([
      record({}),
      record({ sites: ['map'] }),
      record({ start_url: '__GITLAB__' }),
      record({ task_id: 9, eval: texts({ fuzzy_match: ['x'] }) }),
    ]),
  );
  const io = { path: (_: string, path: string) => join(dir, path) };
  const open = async (more: Record<string, unknown> = {}) =>
    await webArena.open(
      webArenaOptions.parse({ data: { test: 'r.json' }, sites: { shopping: 'http://127.0.0.1:1' }, ...more }),
      io,
    );
  const dataset = await open();
  expect(dataset.splits).toEqual({ test: 1 });
  expect(dataset.notes?.join('\n')).toMatch(/1 records .* map [^]*1 records .* gitlab [^]*1 records .* judge/u);
  expect((await open({ judge: 'j' })).splits).toEqual({ test: 2 });
  expect((await open({ judge: 'j' })).digest).not.toBe(dataset.digest);
  const task = await dataset.load('test', 0);
  expect(task.messages[0]?.content).toContain('http://127.0.0.1:1');
  expect(await task.oracle?.({ key: 'k', signal: new AbortController().signal })).toMatchObject([
    { toolCalls: [{ name: 'browser', arguments: { action: 'navigate', url: 'http://127.0.0.1:1/x' } }] },
    { toolCalls: [{ name: 'finish' }] },
  ]);
});
