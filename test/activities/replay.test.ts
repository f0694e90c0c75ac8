/**
 * Hunts rollouts that are played again as something else than they were: another message, another rollout of the task,
 * other tasks under the same key, a tool that is gone. Not asserted: that graders give the same verdict again.
 */
import { beforeEach, describe, expect, it } from 'vitest';
import { defineAgent } from '../../agents/agent.ts';
import { generateTurn } from '../../activities/generate/generate.ts';
import { openReplay, type Replayed } from '../../activities/orchestrator/sweep/open-replay.ts';
import { evalKeys } from '../../reports/evaluation/eval-records.ts';
import type { ReplayPolicy } from '../../protocol/policy.ts';
import type { ActRecord, AnswerRecord, GenerateRecord, OutcomeRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import type { GenerateInput } from '../../protocol/stages.ts';
import type { TaskCatalog } from '../../protocol/task-key.ts';
import { putCatalog } from '../../store/read-records.ts';
import { call, finishCall, saying } from './scripted-parts.ts';
import { attemptOf, ended, RUN, turnInput, useWorld } from './world.ts';

defineAgent({ name: 'stubborn', reads: 'calls', decide: () => ({ do: 'reply', message: 'No.' }) });

const world = useWorld();
const { signal } = new AbortController();
const field = 'policies.then';
const asked = (over: Partial<Replayed> = {}): Replayed => ({
  of: RUN,
  field,
  text: `replay:${RUN}`,
  tasks: ['toy-train-0'],
  sources: undefined,
  ...over,
});
const open = (over: Partial<Replayed> = {}) => openReplay(asked(over), world.now.store);

/** Rolls out sample `k` of task 0 with these answers of the policy, and ends it. */
async function rolledOut(k: number, texts: readonly string[]) {
  const { store, engine, deps } = world.now;
  engine.answers = [...engine.answers, ...texts.map((text) => saying(text))];
  for (const turn of texts.keys()) {
    await generateTurn({ ...turnInput(turn + 1), ...attemptOf(0, k) }, deps, signal);
    await store.putOnce<ActRecord>(keys.act(attemptOf(0, k), turn + 1), { messages: [] });
  }
  return ended(store, 0, k, 1, texts.length);
}

beforeEach(async () => {
  const { store } = world.now;
  await store.putOnce(keys.run(RUN), { run: RUN });
  await store.putOnce(keys.runEnd(RUN), { status: 'completed', finishedAt: '', message: '' });
});

const again = (policy: ReplayPolicy, turn: number, over: Partial<GenerateInput> = {}) => {
  const at = { ...attemptOf(), run: 'eval/e', rollout: `eval/e/then/t1/r1-c0/toy-train-0/${over.sample ?? 0}` };
  const input = { ...turnInput(turn), ...at, policy, ...over };
  return generateTurn(input, world.now.deps, signal).then(async (outcome) => ({
    outcome,
    record: await world.now.store.get<GenerateRecord>(keys.generate(input, turn)),
  }));
};

describe('a rollout that is played again', () => {
  it('says what was said, without an engine, and ends as it did', async () => {
    const rollout = await rolledOut(0, [`I look.\n${call('ls')}`, 'hm', finishCall]);
    const policy = await open();
    const requests = world.now.engine.requests.length;
    const [first, second, third] = [await again(policy, 1), await again(policy, 2), await again(policy, 3)];
    expect([first, second, third].map(({ outcome }) => outcome.kind)).toEqual(['act', 'reply', 'finish']);
    expect(first.record).toMatchObject({
      parsed: { content: 'I look.', calls: [{ name: 'bash', arguments: { command: 'ls' } }] },
      scripted: 'replay',
      replayed: { rollout, attempt: 1, turns: 3 },
      sampled: [],
    });
    expect(world.now.engine.requests).toHaveLength(requests);
    // Today's agent may ask for more than there is: then it ends.
    expect((await again(policy, 4)).outcome.kind).toBe('finish');
  });

  it('is the one of its sample, in the order of steps and samples', async () => {
    const rollouts = [
      await rolledOut(0, [finishCall]),
      await rolledOut(2, [finishCall]),
      await rolledOut(10, [finishCall]),
    ];
    const policy = await open();
    for (const sample of [0, 1, 2, 3])
      expect((await again(policy, 1, { sample })).record?.replayed?.rollout).toBe(rollouts[sample % 3]);
  });

  it('keeps turns that were cut', async () => {
    const { store, engine, deps } = world.now;
    engine.answers = [saying('never end', 'length')];
    await generateTurn(turnInput(1), deps, signal);
    await ended(store, 0, 0, 0, 1);
    expect((await again(await open(), 1)).outcome.kind).toBe('response-cut');
  });

  it('fails by name if a tool that it called is gone; one that was refused then may be refused again', async () => {
    const { store } = world.now;
    const renamed = '<function=shell>\n</function>';
    await rolledOut(0, [renamed, finishCall]);
    const answer: AnswerRecord = { role: 'tool', name: 'shell', content: 'ok' };
    await store.putOnce<AnswerRecord>(keys.answer(attemptOf(), 1, 0), answer);
    const policy = await open();
    await expect(again(policy, 1)).rejects.toThrow(
      /turn 1 of train\/r\/step-1\/toy-train-0\/0 does not fit .* it calls the tool shell, which the task no longer offers \(bash, search, finish\)/u,
    );
    await rolledOut(1, [renamed, finishCall]);
    await store.putOnce<AnswerRecord>(keys.answer(attemptOf(0, 1), 1, 0), { ...answer, refused: true });
    expect((await again(await open(), 1, { sample: 1 })).outcome.kind).toBe('act');
  });

  it('fails by name if the agent decides otherwise and goes on', async () => {
    await rolledOut(0, ['hm', finishCall]);
    const policy = await open();
    const agent = { type: 'tools', options: { message: 'answer' } };
    // The rollout ends there: nothing is said to someone who did not ask.
    expect((await again(policy, 1, { agent })).outcome.kind).toBe('answer');
    await rolledOut(1, [call('ls'), finishCall]);
    await expect(again(await open(), 1, { sample: 1, agent: { type: 'stubborn' } })).rejects.toThrow(
      /turn 1 of .*\/1 does not fit .* the agent decided act then, and decides reply today/u,
    );
  });

  it('fails if its turns are gone', async () => {
    await ended(world.now.store, 0, 0, 1, 2);
    await expect(again(await open(), 1)).rejects.toThrow(/is missing/u);
  });
});

describe('a run to play', () => {
  const refused = (over: Partial<Replayed> = {}) => expect(open(over)).rejects;

  it('must exist and be over', async () => {
    await refused({ of: 'other' }).toThrow(/^policies\.then: .*give replay:RUN or replay:eval\/ID/u);
    await world.now.store.putOnce(keys.run('live'), { run: 'live' });
    await refused({ of: 'live' }).toThrow(/live has not ended/u);
    await world.now.store.putOnce(evalKeys.record('e'), { eval: 'e' });
    await refused({ of: 'eval/e' }).toThrow(/eval\/e has not ended/u);
  });

  it('must have its turns', async () => {
    await world.now.store.putOnce(keys.pruned(RUN), { at: '2026-01-01' });
    await refused().toThrow(/were pruned at 2026-01-01/u);
  });

  it('must have graded rollouts of every task: those that are missing are named', async () => {
    await rolledOut(0, [finishCall]);
    await ended(world.now.store, 1, 0, 'grader-failed');
    const tasks = Array.from({ length: 9 }, (_, i) => `toy-train-${i}`);
    await refused({ tasks }).toThrow(
      /no graded rollout of toy-train-1, toy-train-2, toy-train-3, toy-train-4, toy-train-5 and 3 more/u,
    );
  });

  it('must mean the same tasks by the same keys', async () => {
    const { store } = world.now;
    const sources = (digest: string, environment = 'toy'): TaskCatalog['sources'] => ({
      toy: { environment, options: {}, digest },
    });
    const catalog = await putCatalog({ sources: sources('a') }, store);
    await store.putOnce<OutcomeRecord>(keys.outcome(`train/${RUN}/step-1/toy-train-0/0`), {
      rollout: `train/${RUN}/step-1/toy-train-0/0`,
      task: 'toy-train-0',
      catalog,
      attempt: 1,
      turns: 1,
      status: 'graded',
      reward: 1,
      passed: true,
      finish: 'finish-tool',
      failure: null,
      reason: '',
    });
    await refused({ sources: sources('b') }).toThrow(/the source toy is another one: its records have changed/u);
    await refused({ sources: sources('a', 'other') }).toThrow(/of the environment toy, .* of other/u);
    expect(await open({ sources: sources('a') })).toMatchObject({ scripted: 'replay', of: RUN });
    expect(await open()).toMatchObject({ scripted: 'replay' });
  });
});
