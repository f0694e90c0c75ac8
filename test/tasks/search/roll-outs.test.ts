/**
 * Tasks that search, read in sections, or are judged, from their first turn to their grade, by scripted policies. Why: gold
 * solutions must score 1 and empty answers 0.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Here, openHere } from '../../../cli/check/roll-out-here.ts';
import { encryptText } from '../../../tasks/search/canary.ts';
import { resolveJudges } from '../../../workflows/rollout/resolve-judges.ts';
import { type LoopbackServer, startLoopback } from '../../support/endpoint/http-server.ts';

const { signal } = new AbortController();
const CANARY = 'a canary';
let folder: string;
let server: LoopbackServer;
let here: Here;
let verdict = 'correct: yes';
/** Replies before that. */
let first: string[] = [];

const write = (name: string, ...records: readonly unknown[]) =>
  writeFileSync(join(folder, name), records.map((one) => JSON.stringify(one)).join('\n'));

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'longhaul-search-'));
  server = await startLoopback(() => ({
    body: { choices: [{ finish_reason: 'stop', message: { content: first.shift() ?? verdict } }] },
  }));
  write(
    'corpus.jsonl',
    { id: 'd1', title: 'Harbour', text: 'The harbour was built in 1902.' },
    { id: 'd2', text: 'x' },
  );
  write('questions.jsonl', { id: 'q1', question: 'When was the harbour built?', answer: '1902' });
  write('numbers.jsonl', { question: 'What is 2 + 3?', answer: 'It is 5.\n#### 5' });
  const context = Array.from({ length: 9 }, (_, i) => `Document ${i + 1}:\n${`word${i} `.repeat(20)}\n`).join('');
  write('long.jsonl', { question: 'Which word?', answers: ['word 7'], context });
  const hidden = (text: string) => encryptText(text, CANARY);
  const browse = {
    query_id: 7,
    query: hidden('When was it built?'),
    answer: hidden('1902'),
    evidence_docs: [{ docid: 'd1' }, { docid: 'd9' }],
  };
  write('browse.jsonl', browse);
  const judges = resolveJudges({ judge: { endpoint: { baseUrl: server.baseUrl, model: 'm' } } }, (field) => {
    throw new Error(field);
  });
  const corpus = 'corpus.jsonl';
  const source = (environment: string, options: Record<string, unknown>) => ({ environment, options, folder });
  const sources = {
    search: source('search', { data: { test: 'questions.jsonl' }, corpus }),
    down: source('search', { data: { test: 'questions.jsonl' }, searchUrl: `${server.baseUrl}/retrieve`, maxTurns: 3 }),
    tool: source('browsecomp_plus', {
      data: { test: 'browse.jsonl' },
      searchUrl: `${server.baseUrl}/retrieve`,
      canary: CANARY,
    }),
    searchcode: source('searchcode', { data: { test: 'numbers.jsonl' }, corpus }),
    memory: source('memory', { data: { test: 'long.jsonl' }, sectionTokens: 100 }),
    browse: source('browsecomp_plus', { data: { test: 'browse.jsonl' }, corpus, canary: CANARY }),
  };
  const agent = { maxTurns: 20, toolTimeoutSeconds: 10 };
  here = await openHere(sources, undefined, agent, { judges }, {}, () => undefined);
}, 60_000);
afterAll(async () => {
  await here.close();
  await server.close();
  rmSync(folder, { recursive: true });
});

it.each(['search', 'searchcode', 'memory', 'browse'])(
  'the gold solution of %s scores 1, an empty answer 0',
  async (source) => {
    verdict = 'correct: yes';
    expect(await here.rollOut(`${source}-test-0`, 'oracle', signal)).toMatchObject({ phase: 'graded', reward: 1 });
    expect(await here.rollOut(`${source}-test-0`, 'empty', signal)).toMatchObject({ phase: 'graded', reward: 0 });
  },
  60_000,
);

it.each(['down', 'tool'])('a retrieval server that is not there is a failure, and no reward: %s', async (source) => {
  const { handler } = server;
  server.handler = () => ({ status: 404, body: {} });
  const end = await here.rollOut(`${source}-test-0`, 'oracle', signal);
  server.handler = handler;
  expect(end).toMatchObject({ phase: 'failed', failure: 'service-unavailable' });
});

describe('browsecomp_plus', () => {
  it('a judge that says no gives 0, and the judge reads plain texts', async () => {
    verdict = 'The answer is another one.\n**correct:** no';
    server.asked.length = 0;
    expect(await here.rollOut('browse-test-0', 'oracle', signal)).toMatchObject({ phase: 'graded', reward: 0 });
    expect(JSON.stringify(server.asked[0]?.body)).toMatch(/When was it built\?.*Correct answer: 1902/);
  });

  it('a judge that gives no verdict is asked once more; then it is no if it has one on the right answer', async () => {
    [first, verdict] = [['I cannot tell.', 'I cannot tell.'], 'correct: yes'];
    server.asked.length = 0;
    const end = await here.rollOut('browse-test-0', 'oracle', signal);
    expect(end).toMatchObject({ phase: 'graded', reward: 0, reason: 'the judge gave no verdict' });
    expect(server.asked).toHaveLength(3);
    verdict = 'I cannot tell.';
    expect(await here.rollOut('browse-test-0', 'oracle', signal)).toMatchObject({ failure: 'grader-failed' });
  });
});
