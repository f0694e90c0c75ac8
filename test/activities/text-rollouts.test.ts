/**
 * Hunts rollouts in messages that lose a message, a state or a reward: tasks without tools and sandboxes, whose
 * environment reads each message, or whose first message is the answer.
 */
import { beforeEach, expect, it, vi } from 'vitest';
import { createAgentRunActivities } from '../../activities/agent-run/agent-run.ts';
import { generateTurn } from '../../activities/generate/generate.ts';
import { createInitActivities } from '../../activities/init/init.ts';
import { createRewardActivities } from '../../activities/reward/reward.ts';
import type { ActRecord, GenerateRecord, OutcomeRecord, StartRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { trajectoryOf } from '../../reports/trajectories.ts';
import type { Task, Work } from '../../tasks/environment.ts';
import { defineEnvironment } from '../../tasks/registry.ts';
import { TaskLoader } from '../../tasks/task-loader.ts';
import { characterTokenizer, saying } from './scripted-parts.ts';
import { attemptOf, inActivity, turnInput, useWorld } from './world.ts';

const world = useWorld();
const { signal } = new AbortController();
let task: Partial<Task>;
let stepped: Array<readonly [state: unknown, message: string]>;
let graded: Work[];
beforeEach(() => {
  [task, stepped, graded] = [{}, [], []];
});
defineEnvironment({
  name: 'said',
  open: async () =>
    await Promise.resolve({
      digest: 'said',
      splits: { train: 1000 },
      load: async (): Promise<Task> =>
        await Promise.resolve({
          messages: [{ role: 'user', content: 'Say it.' }],
          tools: [],
          grade: async (_ctx, work) => {
            graded.push(work);
            return await Promise.resolve({ code: 'graded', reward: 1, passed: true, reason: 'said' });
          },
          ...task,
        }),
    }),
});

const attempt = { ...attemptOf(), task: 'said-train-0' };

function parts() {
  const { store, provider, deps } = world.now;
  // Each test has a task of its own under the same key.
  const tasks = new TaskLoader(store);
  const place = { store, tasks, provider, host: 'here', maxLiveSandboxes: 1, sandboxTtlSeconds: 60 };
  const agent = createAgentRunActivities(place);
  return {
    prepare: () => inActivity(() => createInitActivities(place).prepare(attempt)),
    say: (turn: number, text: string) => {
      world.now.engine.answers[turn - 1] = saying(text);
      return generateTurn({ ...turnInput(turn), task: attempt.task }, { ...deps, tasks }, signal);
    },
    act: (turn: number) => inActivity(() => agent.agentRun({ ...attempt, turn, toolTimeoutSeconds: 7 })),
    grade: (turns: number) =>
      inActivity(() => createRewardActivities(place).computeReward({ ...attempt, finish: 'done', turns })),
    trajectory: () => trajectoryOf(attempt.rollout, { store, tasks }),
  };
}

const counting: Partial<Task> = {
  start: async () =>
    await Promise.resolve({ state: { said: 0 }, messages: [{ role: 'user', content: 'Count to two.' }] }),
  step: async (_ctx, state, message) => {
    stepped.push([state, message]);
    const said = (state as { said: number }).said + 1;
    const messages = [{ role: 'user' as const, content: `You said ${said}.` }];
    return await Promise.resolve({ state: { said }, messages, done: said === 2, reward: said / 10, metrics: { said } });
  },
};

it('a message is the answer if no step reads it, and the grader gets it', async () => {
  const { prepare, say, grade } = parts();
  expect(await prepare()).toEqual({ sandbox: null, gradedIn: 'fresh' });
  expect(await say(1, 'It is 42.')).toMatchObject({ kind: 'answer', calls: 0 });
  expect(await grade(1)).toMatchObject({ reward: 1 });
  expect(graded).toMatchObject([{ answer: 'It is 42.', finish: 'done', turns: 1, state: undefined }]);
  expect(graded[0]?.transcript).toEqual([
    { role: 'user', content: 'Say it.' },
    { role: 'assistant', content: 'It is 42.' },
  ]);
  expect([...world.now.provider.live]).toEqual([]);
  expect(world.now.provider.log).toEqual([]);
});

it('each message is read once, with the state of the one before, and its answer is in the next prompt', async () => {
  task = counting;
  const { prepare, say, act, grade, trajectory } = parts();
  await prepare();
  await prepare();
  expect(await world.now.store.get<StartRecord>(keys.start(attempt))).toMatchObject({ state: { said: 0 } });
  expect(await say(1, 'one')).toMatchObject({ kind: 'step', calls: 0 });
  expect([await act(1), await act(1)]).toEqual([{ line: 'You said 1.' }, { line: 'You said 1.' }]);
  await say(2, 'two');
  const asked = world.now.engine.requests.map(({ tokens }) => characterTokenizer().decode(tokens));
  expect(asked[0]).toContain('user:Count to two.');
  expect(asked[1]).toContain('user:You said 1.');
  expect(await act(2)).toEqual({ line: 'You said 2.', done: true });
  expect(stepped).toEqual([
    [{ said: 0 }, 'one'],
    [{ said: 1 }, 'two'],
  ]);
  expect(await world.now.store.get<ActRecord>(keys.act(attempt, 2))).toEqual({
    messages: [{ role: 'user', content: 'You said 2.' }],
    state: { said: 2 },
    done: true,
    reward: 0.2,
    metrics: { said: 2 },
  });
  await grade(2);
  expect(graded).toMatchObject([{ answer: 'two', state: { said: 2 } }]);
  const { metrics } = (await world.now.store.get<OutcomeRecord>(keys.outcome(attempt.rollout))) ?? {};
  expect(metrics).toEqual({ said: 2 });
  expect((await trajectory())?.messages.map(({ content }) => content)).toEqual([
    'Count to two.',
    'one',
    'You said 1.',
    'two',
    'You said 2.',
  ]);
});

it('parts and metrics of the verdict are in the outcome, which names what is no number', async () => {
  const verdict = { code: 'graded', reward: 1, passed: true, reason: 'right' } as const;
  task = {
    ...counting,
    grade: async () => await Promise.resolve({ ...verdict, parts: { format: 1 }, metrics: { said: 7 } }),
  };
  const { prepare, say, act, grade } = parts();
  await prepare();
  await say(1, 'one');
  await act(1);
  await grade(1);
  expect(await world.now.store.get<OutcomeRecord>(keys.outcome(attempt.rollout))).toMatchObject({
    parts: { format: 1 },
    metrics: { said: 7 },
  });
});

it('a verdict with a part that is no number is the grader’s failure', async () => {
  const verdict = { code: 'graded', reward: 1, passed: true, reason: '', parts: { format: Number.NaN } } as const;
  task = { grade: async () => await Promise.resolve(verdict) };
  const { prepare, say, grade } = parts();
  await prepare();
  await say(1, 'It is 42.');
  await expect(grade(1)).rejects.toThrow(/in parts and metrics numbers by name/);
});

it.each<[string, Partial<Task>, RegExp]>([
  [
    'throws',
    { ...counting, step: () => Promise.reject(new RangeError('no such guess')) },
    /step threw RangeError: no such guess \(.*text-rollouts\.test\.ts:\d+\)/,
  ],
  [
    'returns nothing',
    { ...counting, step: () => Promise.resolve(undefined as never) },
    /step of said-train-0 returned nothing/,
  ],
  [
    'gives no number',
    { ...counting, step: () => Promise.resolve({ state: 1, messages: [], reward: Number.NaN }) },
    /return \{ state, messages, done, reward \}/,
  ],
])('a step that %s is the environment’s failure, never a reward', async (_, given, message) => {
  task = given;
  const { prepare, say, act } = parts();
  await prepare();
  await say(1, 'one');
  await expect(act(1)).rejects.toMatchObject({
    type: 'EnvironmentFailed',
    message: expect.stringMatching(message) as string,
  });
  expect(await world.now.store.get(keys.act(attempt, 1))).toBeUndefined();
});

it('a call of a tool is refused where there is no sandbox, and the rollout goes on', async () => {
  task = { agent: { type: 'tools' }, tools: ['bash', 'finish'] };
  const { prepare, say, act } = parts();
  await prepare();
  expect(await say(1, '<function=bash>\n<parameter=command>ls</parameter>\n</function>')).toMatchObject({
    kind: 'act',
  });
  expect(await act(1)).toEqual({ line: 'Error: bash cannot run: this task has no sandbox.' });
  const record = await world.now.store.get<GenerateRecord>(keys.generate(attempt, 1));
  expect(record?.command).toEqual({ do: 'act' });
  await say(2, '<function=search>\n<parameter=query>x</parameter>\n</function>');
  expect(await act(2)).toEqual({ line: 'Error: there is no tool "search"; use bash, finish.' });
});

it('a step reads a record or two of earlier turns, however many there are', async () => {
  const { store } = world.now;
  task = { ...counting, step: async () => await Promise.resolve({ state: {}, messages: [] }) };
  const { prepare, say, act } = parts();
  await prepare();
  const readsOf = async (turn: number) => {
    await say(turn, 'more');
    const [get, list] = [vi.spyOn(store, 'get'), vi.spyOn(store, 'list')];
    await act(turn);
    const reads = [get, list].flatMap((spy) => spy.mock.calls.filter(([key]) => key.startsWith('act:')));
    [get, list].forEach((spy) => spy.mockRestore());
    return reads.length;
  };
  const reads: number[] = [];
  for (let turn = 1; turn <= 12; turn += 1) reads.push(await readsOf(turn));
  expect(reads.slice(1)).toEqual(reads.slice(1).map(() => reads[1]));
});

it('the state of an early step reaches a later one over turns without a step', async () => {
  const { store } = world.now;
  task = counting;
  const { prepare, say, act } = parts();
  await prepare();
  await say(1, 'one');
  await act(1);
  await store.putOnce<ActRecord>(keys.act(attempt, 2), { messages: [] });
  await say(2, 'a turn of calls');
  await say(3, 'a turn that was answered with a hint');
  await say(4, 'two');
  await act(4);
  expect(stepped.at(-1)).toEqual([{ said: 1 }, 'two']);
});
