/**
 * `examples/environments/judged-answers.ts` with a judge behind HTTP, by `longhaul check --oracle`. Why: an answer of the
 * judge that is misread is a wrong reward for every rollout.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { type Here, openHere } from '../../cli/check/roll-out-here.ts';
import { resolveJudges } from '../../workflows/rollout/resolve-judges.ts';
import { type LoopbackServer, startLoopback } from '../support/endpoint/http-server.ts';

vi.mock('longhaul', async () => await import('../../client/index.ts'));
await import('../../examples/environments/judged-answers.ts');

const { signal } = new AbortController();
let folder: string;
let judge: LoopbackServer;
let here: Here;
/** What the judge replies to each question in turn; the last one to all further ones. */
let replies: string[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'longhaul-judged-'));
  const points = ['It is red.', 'It is round.'];
  writeFileSync(join(folder, 'questions.jsonl'), `${JSON.stringify({ question: 'What is it?', points })}\n`);
  judge = await startLoopback(() => {
    const content = (replies.length > 1 ? replies.shift() : replies[0]) ?? '';
    return { body: { choices: [{ finish_reason: 'stop', message: { content } }] } };
  });
  const judges = resolveJudges({ teacher: { endpoint: { baseUrl: judge.baseUrl, model: 'm' } } }, (field) => {
    throw new Error(field);
  });
  const source = { environment: 'judged-answers', options: { questions: 'questions.jsonl' }, folder };
  const agent = { maxTurns: 1, toolTimeoutSeconds: 10 };
  here = await openHere({ 'judged-answers': source }, undefined, agent, { judges }, {}, () => undefined);
});
afterAll(async () => {
  await here.close();
  await judge.close();
  rmSync(folder, { recursive: true });
});

it.each([
  [['points: 1, 2'], { phase: 'graded', reward: 1, passed: true }],
  [['Both are there. Points: 2'], { phase: 'graded', reward: 0.5, passed: false }],
  [['points: none'], { phase: 'graded', reward: 0, passed: false }],
  [['It is a good answer.', 'points: 1,2'], { phase: 'graded', reward: 1, passed: true }],
  // The third question is about the right answer: if the judge answers that, the policy's text is at fault.
  [['It is a good answer.', 'It is a poem.', 'points: 1,2'], { phase: 'graded', reward: 0, passed: false }],
  [['It is a good answer.'], { phase: 'failed', failure: 'grader-failed' }],
])('the gold answer, judged as %j', async (said, end) => {
  replies = said;
  expect(await here.rollOut('judged-answers-train-0', 'oracle', signal)).toMatchObject(end);
});

it('an empty answer scores 0, and the judge is not asked', async () => {
  judge.asked.length = 0;
  expect(await here.rollOut('judged-answers-train-0', 'empty', signal)).toMatchObject({ phase: 'graded', reward: 0 });
  expect(judge.asked).toEqual([]);
});

it('a judge that is down is told as such', async () => {
  const { handler } = judge;
  judge.handler = () => ({ status: 401, body: {} });
  const end = await here.rollOut('judged-answers-train-0', 'oracle', signal);
  expect(end).toMatchObject({ phase: 'failed', failure: 'judge-unavailable' });
  judge.handler = handler;
});
