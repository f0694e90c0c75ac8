/**
 * Hunts a question to a judge that is asked twice, an answer that another question gets, and a verdict that was made
 * without an answer. The judge is a real HTTP server. Not asserted: what the workflow does with a rollout that is held;
 * see test/workflows/judged-rollouts.test.ts.
 */
import { setTimeout } from 'node:timers/promises';
import { ApplicationFailure } from '@temporalio/common';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createAgentRunActivities } from '../../activities/agent-run/agent-run.ts';
import { withAsk } from '../../activities/ask.ts';
import { createInitActivities } from '../../activities/init/init.ts';
import { createRewardActivities } from '../../activities/reward/reward.ts';
import { generateTurn } from '../../activities/generate/generate.ts';
import { EndpointClient } from '../../endpoints/endpoint-client.ts';
import type { AskRecord, Judges } from '../../protocol/judge.ts';
import { defineTool } from '../../agents/tools/registry.ts';
import type { GenerateRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { resolveJudges } from '../../workflows/rollout/resolve-judges.ts';
import type { Store } from '../../store/store.ts';
import type { Task } from '../../tasks/environment.ts';
import { defineEnvironment } from '../../tasks/registry.ts';
import { TaskLoader } from '../../tasks/task-loader.ts';
import { type LoopbackServer, startLoopback } from '../support/endpoint/http-server.ts';
import { saying } from './scripted-parts.ts';
import { attemptOf, dyingAt, eventLines, inActivity, turnInput, useWorld } from './world.ts';

const world = useWorld();
const { signal } = new AbortController();
const graded = { code: 'graded', reward: 1, passed: true, reason: '' } as const;

let judge: LoopbackServer;
let task: Partial<Task>;
let judges: Judges;

const refuse = (field: string, value: unknown, remedy: string): never => {
  throw new Error(`${field}: ${String(value)}; ${remedy}`);
};
const lastWords = ({ messages }: Record<string, unknown>) => (messages as Array<{ content: string }>).at(-1)?.content;
const completion = (content: string) => ({
  choices: [{ finish_reason: 'stop', message: { content } }],
  usage: { prompt_tokens: 10, completion_tokens: 2 },
});

beforeEach(async () => {
  task = {};
  judge = await startLoopback(({ body }) => ({ body: completion(`to ${lastWords(body)}: yes`) }));
  const endpoint = {
    baseUrl: judge.baseUrl,
    model: 'm',
    maxTries: 1,
    pricePerMillionTokens: { prompt: 1, sampled: 10 },
  };
  judges = resolveJudges({ strict: { endpoint } }, refuse);
});
afterEach(() => judge.close());

defineTool({
  name: 'expert',
  description: 'Answers.',
  runs: 'worker',
  effect: 'none',
  parameters: { what: { type: 'string', description: 'What.' } },
  required: ['what'],
  run: async (args, { ask }) => ask(args.text('what'), { judge: 'strict' }),
});

defineEnvironment({
  name: 'asking',
  open: async () =>
    await Promise.resolve({
      digest: 'asking',
      splits: { train: 1000 },
      load: async (): Promise<Task> =>
        await Promise.resolve({
          messages: [{ role: 'user', content: 'Say it.' }],
          tools: [],
          gradedIn: 'none',
          grade: async () => await Promise.resolve(graded),
          ...task,
        }),
    }),
});

function parts(store: Store = world.now.store, env: NodeJS.ProcessEnv = {}) {
  const { provider, deps } = world.now;
  const tasks = new TaskLoader(store);
  const place = { store, tasks, provider, host: 'here', maxLiveSandboxes: 1, sandboxTtlSeconds: 60 };
  const asking = { ...place, endpoints: new EndpointClient(env) };
  const attempt = { ...attemptOf(), task: 'asking-train-0', judges };
  return {
    attempt,
    prepare: () => inActivity(() => createInitActivities(asking).prepare(attempt)),
    grade: () =>
      inActivity(() => createRewardActivities(asking).computeReward({ ...attempt, finish: 'done', turns: 0 })),
    say: (turn: number, text: string) => {
      world.now.engine.answers[turn - 1] = saying(text);
      return generateTurn({ ...turnInput(turn), task: attempt.task }, { ...deps, store, tasks }, signal);
    },
    act: (turn: number) =>
      inActivity(() => createAgentRunActivities(asking).agentRun({ ...attempt, turn, toolTimeoutSeconds: 7 })),
  };
}

/** How a promise failed, as the workflow sees it. */
const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => 'it did not fail',
    ({ type, message, nonRetryable }: ApplicationFailure) => ({ type, message, nonRetryable }),
  );
const asksOf = async () =>
  (await world.now.store.list<AskRecord>(keys.asks(attemptOf()))).map(({ key, value }) => ({ key, value }));

it('an answer is recorded with its question, its tokens and its cost', async () => {
  task.grade = async (ctx) => ({ ...graded, reason: await ctx.ask('is it right?') });
  expect(await parts().grade()).toMatchObject({ reason: 'to is it right?: yes' });
  const [one] = await asksOf();
  expect(one?.key).toContain('/grade/');
  expect(one?.value).toMatchObject({ judge: 'strict', model: 'm', promptTokens: 10, sampledTokens: 2, usd: 30e-6 });
  const said = Buffer.from(await world.now.store.getObject(one?.value.exchange ?? 'sha256:')).toString();
  expect(JSON.parse(said)).toEqual({
    question: [{ role: 'user', content: 'is it right?' }],
    answer: 'to is it right?: yes',
  });
});

it('a worker that dies after the answer costs no second question, and the call counts once', async () => {
  task.grade = async (ctx) => ({ ...graded, reason: await ctx.ask('is it right?') });
  for (const method of ['append', 'getObject'] as const)
    await expect(parts(dyingAt(world.now.store, method)).grade()).rejects.toThrow('killed here');
  expect(await parts().grade()).toMatchObject({ reason: 'to is it right?: yes' });
  expect(judge.asked.length).toBe(1);
  expect((await eventLines(world.now.store, 'spent')).length).toBe(1);
});

it('equal questions are further calls, and a question that was not asked before has no answer of another one', async () => {
  let questions = ['a', 'b', 'a'];
  task.grade = async (ctx) => {
    const answers: string[] = [];
    for (const question of questions) answers.push(await ctx.ask(question));
    if (judge.asked.length < 4) throw new Error('not yet');
    return { ...graded, reason: answers.join(', ') };
  };
  await expect(parts().grade()).rejects.toThrow('not yet');
  expect(judge.asked.length).toBe(3);
  questions = ['b', 'c', 'a', 'a'];
  expect(await parts().grade()).toMatchObject({ reason: 'to b: yes, to c: yes, to a: yes, to a: yes' });
  expect(judge.asked.map(({ body }) => lastWords(body))).toEqual(['a', 'b', 'a', 'c']);
});

it('a judge that is down makes no verdict, though the grader catches its error', async () => {
  judge.handler = () => ({ status: 503, body: {} });
  task.grade = async (ctx) => ({ ...graded, reason: await ctx.ask('?').catch(() => 'I did not ask'), reward: 0 });
  const failure = { type: 'JudgeUnavailable', nonRetryable: false };
  expect(await failureOf(parts().grade())).toMatchObject(failure);
  // The round of grading continues: nothing of it failed.
  expect(await world.now.store.list(keys.ungradedRounds({ ...attemptOf(), task: '' }))).toEqual([]);
  judge.handler = ({ body }) => ({ body: completion(`to ${lastWords(body)}: no`) });
  expect(await parts().grade()).toMatchObject({ reason: 'to ?: no' });
});

it('start and step ask too; what a judge fails with is not blamed on their code', async () => {
  task.start = async (ctx) => await Promise.resolve({ state: await ctx.ask('begin?') });
  task.step = async (ctx, state, message) => ({ state, messages: [{ role: 'user', content: await ctx.ask(message) }] });
  const { prepare, say, act, attempt } = parts();
  judge.handler = () => null;
  expect(await failureOf(prepare())).toMatchObject({ type: 'JudgeUnavailable' });
  judge.handler = ({ body }) => ({ body: completion(`to ${lastWords(body)}: no`) });
  await prepare();
  await say(1, 'four');
  expect(await act(1)).toMatchObject({ line: 'to four: no' });
  expect(
    (await asksOf()).map(({ key }) => key.slice(keys.asks(attempt).length).replace(/\/[0-9a-f]{16}\/1$/, '')),
  ).toEqual(['start', 'step/1']);
});

it('a tool in the worker asks; a judge that is down is no observation', async () => {
  task = { ...task, tools: ['expert'] };
  const { attempt, prepare, act } = parts();
  await prepare();
  await world.now.store.putOnce<Partial<GenerateRecord>>(keys.generate(attempt, 1), {
    parsed: { kind: 'calls', content: '', calls: [{ name: 'expert', arguments: { what: 'iron' } }] },
    command: { do: 'act' },
  });
  judge.handler = () => ({ status: 503, body: {} });
  expect(await failureOf(act(1))).toMatchObject({ type: 'JudgeUnavailable' });
  expect(await world.now.store.list(keys.answers(attempt))).toEqual([]);
  judge.handler = ({ body }) => ({ body: completion(`to ${lastWords(body)}: no`) });
  expect(await act(1)).toMatchObject({ line: 'to iron: no' });
  expect((await asksOf())[0]?.key).toContain('/tool/1/0/');
});

it('a key that the server refuses holds at once; a question that it refuses is the grader’s business', async () => {
  task.grade = async (ctx) => ({ ...graded, reason: await ctx.ask('?').catch((error: Error) => error.name) });
  judge.handler = () => ({ status: 401, body: { error: { message: 'no such key' } } });
  const failed = await failureOf(parts().grade());
  expect(failed).toMatchObject({ type: 'JudgeUnavailable', nonRetryable: true });
  expect(JSON.stringify(failed)).toContain('judges.strict.endpoint.apiKeyEnv');
  judge.handler = () => ({ status: 400, body: { error: { message: 'this question is odd' } } });
  expect(await parts().grade()).toMatchObject({ reason: 'QuestionRefused' });
});

it('a judge that never answers ends the question before the asking function’s time is over', async () => {
  judge.handler = (_, gone) => new Promise((resolve) => gone.addEventListener('abort', () => resolve(null)));
  const { attempt } = parts();
  const by = { attempt, place: 'tool/1/0', signal, withinMs: 400 };
  const deps = { store: world.now.store, endpoints: new EndpointClient({}) };
  const asked = withAsk(by, deps, async ({ ask }) => ask('?').catch(() => 'caught'));
  await expect(asked).rejects.toThrow('judge strict gave no answer');
});

it('a judge’s budget ends its questions, and nothing is recorded for the one that was not asked', async () => {
  const { endpoint } = judges['strict'] ?? {};
  judges = resolveJudges({ strict: { endpoint, budget: { tokens: 20 } } }, refuse);
  task.grade = async (ctx) => {
    for (const question of ['a', 'b', 'c']) await ctx.ask(question);
    return graded;
  };
  const failed = await failureOf(parts().grade());
  expect(failed).toMatchObject({ type: 'BudgetSpent', nonRetryable: true });
  expect(JSON.stringify(failed)).toContain('has used 24 of judges.strict.budget.tokens, which is 20');
  expect(judge.asked.length).toBe(2);
});

it('a judge’s hours are the time of its calls, and end its questions', async () => {
  const { endpoint } = judges['strict'] ?? {};
  judges = resolveJudges({ strict: { endpoint, budget: { hours: 1e-6 } } }, refuse);
  judge.handler = async () => {
    await setTimeout(20);
    return { body: completion('yes') };
  };
  task.grade = async (ctx) => {
    for (const question of ['a', 'b']) await ctx.ask(question);
    return graded;
  };
  const failed = await failureOf(parts().grade());
  expect(failed).toMatchObject({ type: 'BudgetSpent', nonRetryable: true });
  expect(JSON.stringify(failed)).toContain('of judges.strict.budget.hours, which is 0.000001');
  expect(judge.asked.length).toBe(1);
});

it('a judge that is not configured is named, with what to write', async () => {
  judges = {};
  task.grade = async (ctx) => ({ ...graded, reason: await ctx.ask('?', { judge: 'mild' }) });
  const failed = await failureOf(parts().grade());
  expect(failed).toMatchObject({ type: 'UserInputError' });
  expect(JSON.stringify(failed)).toContain('judges: { mild: { endpoint: { baseUrl, model } } }');
});
