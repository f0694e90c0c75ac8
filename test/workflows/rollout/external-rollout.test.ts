/**
 * Hunts programs as agents that cost a reward, or get one, by the fault of a machine: real Temporal, store, bubblewrap
 * sandboxes and grader; the programs are commands in the sandbox, and this process by the library's handle.
 * Not asserted: what a recording gateway would report.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { createAgentRunActivities } from '../../../activities/agent-run/agent-run.ts';
import { type GenerateDeps, generateTurn } from '../../../activities/generate/generate.ts';
import { createInitActivities } from '../../../activities/init/init.ts';
import { createRewardActivities } from '../../../activities/reward/reward.ts';
import { ExternalRollout, rolloutsAtWork } from '../../../client/external-rollout.ts';
import { REFUSED, REPORT_TURN } from '../../../protocol/program.ts';
import type { ActRecord, GenerateRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import type { RolloutInput, RolloutResult } from '../../../protocol/rollout.ts';
import { runKey } from '../../../protocol/search-attributes.ts';
import { killProcess } from '../../../sandboxes/supervised/process-identity.ts';
import { folderOf, readIdentity } from '../../../sandboxes/supervised/state.ts';
import { turnsOf } from '../../../store/read-records.ts';
import type { Task, Work } from '../../../tasks/environment.ts';
import { defineEnvironment } from '../../../tasks/registry.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { openBench } from '../../sandboxes/harness.ts';
import { useStoreWorld } from '../../support/use-store-world.ts';

const bench = await openBench();
let graded: Work[] = [];
beforeEach(() => {
  graded = [];
});
const common: Pick<Task, 'messages' | 'tools' | 'grade'> = {
  messages: [{ role: 'user', content: 'Do it.' }],
  tools: [],
  grade: async (_ctx, work) => {
    graded.push(work);
    const passed = work.answer.includes('42') || Buffer.from(work.artifact).toString().includes('42');
    return await Promise.resolve({ code: 'graded', reward: Number(passed), passed, reason: '' });
  },
};
/** Even tasks have a sandbox, whose file `out` is graded too. */
defineEnvironment({
  name: 'outside',
  open: async () =>
    await Promise.resolve({
      digest: 'outside',
      splits: { train: 1000 },
      load: async (_split, index): Promise<Task> =>
        await Promise.resolve({
          ...common,
          oracle: async () => await Promise.resolve([{ role: 'assistant', content: 'It is 42.' }]),
          ...(index % 2 === 0 && {
            sandboxes: { main: { workdir: '/work', files: [], env: {} } },
            collect: async (ctx) => {
              const found = await (await ctx.sandbox()).read('/work/out', 1000);
              return found.kind === 'file' ? found.content : new Uint8Array();
            },
          }),
        }),
    }),
});
const POLICY = { uri: 'file:///p', version: 0 } as const;
const [WITH_SANDBOX, WITHOUT] = ['outside-train-0', 'outside-train-1'];

const world = useStoreWorld((over, scripted) => {
  const parts = { store: over, tasks: new TaskLoader(over), provider: bench.provider, host: 'test-host' };
  return {
    init: createInitActivities({ ...parts, maxLiveSandboxes: 9, sandboxTtlSeconds: 60 }),
    agentRun: createAgentRunActivities({ ...parts, sandboxTtlSeconds: 60 }),
    reward: createRewardActivities(parts),
    gpu: {
      ...scripted.gpu,
      // A scripted policy asks for no engine, tokenizer or endpoint.
      generate: (input) => generateTurn(input, parts as unknown as GenerateDeps, new AbortController().signal),
    },
  };
});
const { store } = world;

let serial = 0;
async function begin(task: string, options: Record<string, unknown>, over: Partial<RolloutInput> = {}) {
  const id = `external-${serial++}`;
  const agent = { type: 'external', options, ...over.agent };
  const handle = await world.start('rollout', id, { task, policy: POLICY, ...over, agent });
  const result = () => handle.result() as Promise<RolloutResult>;
  return { id, handle, result, program: new ExternalRollout(world.now.client, id, 20_000) };
}
const attemptOf = (id: string, attempt = 1) => ({ run: id, rollout: id, attempt, task: '' });
const said = (content: string) => ({ messages: [{ role: 'assistant' as const, content }] });

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await sleep(50);
}

describe('a program in the sandbox', () => {
  it('is waited for, its files are collected, and what it prints is the answer', async () => {
    const { result } = await begin(WITH_SANDBOX, { command: 'echo 42 > out; echo "I wrote it."' });
    expect(await result()).toMatchObject({ status: 'graded', reward: 1, finish: 'answer', turns: 0, attempt: 1 });
    expect(graded).toMatchObject([{ answer: 'I wrote it.', finish: 'answer', turns: 0 }]);
  });

  it.each([
    ['fails', 'echo 42 > out; exit 3', {}, 'program-failed', 1],
    ['dies', 'kill -9 $$', {}, 'program-failed', 0],
    ['hangs', 'echo 42 > out; sleep 100', { timeoutSeconds: 1 }, 'program-timeout', 1],
    ['writes too much', 'yes | head -c 30000000; echo 42', {}, 'answer', 1],
  ])('that %s is graded as it is', async (_, command, options, finish, reward) => {
    const { result } = await begin(WITH_SANDBOX, { command, ...options });
    expect(await result()).toMatchObject({ status: 'graded', reward, finish });
    expect((graded[0]?.answer ?? '').length).toBeLessThan(70_000);
  });

  it('that takes until the deadline of the rollout is graded, or masked where that is asked for', async () => {
    const given = { agent: { deadlineSeconds: 1 } };
    const { result } = await begin(WITH_SANDBOX, { command: 'sleep 100' }, given as Partial<RolloutInput>);
    expect(await result()).toMatchObject({ status: 'graded', finish: 'deadline' });
    const masked = { agent: { deadlineSeconds: 1, atDeadline: 'mask' } } as Partial<RolloutInput>;
    const other = await begin(WITH_SANDBOX, { command: 'sleep 100' }, masked);
    expect(await other.result()).toMatchObject({ status: 'failed', failure: 'deadline' });
  });

  it('whose sandbox is lost starts again in the next attempt, never from a sandbox without its work', async () => {
    const { id, result } = await begin(WITH_SANDBOX, { command: 'echo 42 > out; sleep 1' });
    const identity = () => readIdentity(folderOf(bench.stateDir, `${id}#1`), 'inner');
    await until(async () => (await store.begun(keys.program(attemptOf(id)))) > 0 && identity() !== undefined);
    killProcess(identity()!);
    expect(await result()).toMatchObject({ status: 'graded', reward: 1, attempt: 2 });
    expect(await store.begun(`restore:${id}#1~1`)).toBe(0);
  });

  it('runs once, however many workers run its activity', async () => {
    const { id } = await begin(WITH_SANDBOX, { command: 'echo 42 >> out; sleep 3; cat out' });
    await until(async () => (await store.begun(keys.program(attemptOf(id)))) > 0);
    await world.now.stop();
    await world.open();
    expect(await world.now.client.workflow.getHandle(id).result()).toMatchObject({ status: 'graded', reward: 1 });
    expect(graded[0]?.answer).toBe('42');
  });

  it('that is cancelled leaves no sandbox', async () => {
    const { id, handle, result } = await begin(WITH_SANDBOX, { command: 'sleep 100' });
    await until(async () => (await store.begun(keys.program(attemptOf(id)))) > 0);
    await handle.cancel();
    await expect(result()).rejects.toThrow();
    await until(async () => !(await bench.provider.list()).includes(`${id}#1`));
  });

  it('is refused in a task without a sandbox', async () => {
    const { result } = await begin(WITHOUT, { command: 'true' });
    expect(await result()).toMatchObject({
      failure: 'bad-input',
      message: expect.stringMatching(/agent\.options\.command/u),
    });
  });
});

it.each([
  ['oracle', 1, 'It is 42.'],
  ['empty', 0, ''],
] as const)('%s acts in the place of the program', async (scripted, reward, answer) => {
  for (const options of [{ command: 'echo not me' }, {}]) {
    const { result } = await begin(WITH_SANDBOX, options, { policy: { scripted, version: 0 } });
    expect(await result()).toMatchObject({ status: 'graded', reward });
    expect(graded.at(-1)?.answer).toBe(answer);
  }
});

describe('a program elsewhere', () => {
  it('reports its turns, with tokens or without, and its answer', async () => {
    const { id, result, program } = await begin(WITHOUT, {});
    const calls = [{ name: 'look', arguments: { at: 'it' } }];
    const tokens = { appended: [1, 2], sampled: [3], logprobs: [-0.5], temperature: 1 };
    const answered = { role: 'tool', name: 'look', content: 'seen' } as const;
    const messages = [{ role: 'assistant', content: 'Looking.', toolCalls: calls } as const, answered];
    expect(await program.report({ messages, tokens })).toEqual({ turns: 1 });
    expect(await program.report(said('Thinking.'))).toEqual({ turns: 2 });
    expect(await program.finish('It is 42.')).toEqual({ turns: 2, finish: 'answer' });
    expect(await result()).toMatchObject({ status: 'graded', reward: 1, finish: 'answer', turns: 2 });
    expect(graded[0]?.transcript.map(({ content }) => content)).toEqual(['Do it.', 'Looking.', 'seen', 'Thinking.']);
    expect(graded[0]?.answer).toBe('It is 42.');
    const [first, second] = await turnsOf(store, attemptOf(id));
    expect(first).toMatchObject({ appended: [1, 2], sampled: [3], reported: true, parsed: { calls } });
    expect(first?.untrainable).toBeUndefined();
    expect(second?.untrainable).toMatch(/without its tokens/u);
    await expect(program.report(said('More.'))).rejects.toMatchObject({ code: 'over' });
  });

  it('gets the same answer for a turn that it reports again, and turns that overtake each other are in order', async () => {
    const { id, handle, program, result } = await begin(WITHOUT, {});
    await program.begin();
    const report = (turn: number, content: string) =>
      handle.executeUpdate(REPORT_TURN, { args: [{ attempt: 1, turn, ...said(content) }] });
    const { historyLength } = await handle.describe();
    const third = report(3, 'three');
    // The update is accepted, and waits for the turns before it.
    await until(async () => (await handle.describe()).historyLength > historyLength);
    const second = report(2, 'two');
    expect(await report(1, 'one')).toMatchObject({});
    expect(await second).toMatchObject({});
    expect(await third).toEqual({ turns: 3 });
    expect(await report(2, 'another two')).toEqual({ turns: 3 });
    const other = new ExternalRollout(world.now.client, id);
    expect(await other.begin()).toEqual({ attempt: 1, turns: 3 });
    await other.finish();
    expect(await result()).toMatchObject({ turns: 3, finish: 'answer' });
    expect(graded[0]?.transcript.map(({ content }) => content)).toEqual(['Do it.', 'one', 'two', 'three']);
    expect(graded[0]?.answer).toBe('three');
  });

  it('is refused by name, and nothing of it is in the history', async () => {
    const { id, handle, program, result } = await begin(WITHOUT, { tokens: true }, { agent: { maxTurns: 2 } } as never);
    await program.begin();
    const events = async () => (await handle.describe()).historyLength;
    const before = await events();
    const tokens = { appended: [], sampled: [1, 2], logprobs: [-1, -1], temperature: 1 };
    const good = { attempt: 1, turn: 1, ...said('one'), tokens };
    const refused: Array<[unknown, string, RegExp]> = [
      [{ ...good, tokens: undefined }, REFUSED.wrong, /^tokens: .*agent\.options\.tokens/u],
      [{ ...good, tokens: { ...tokens, logprobs: [-1] } }, REFUSED.wrong, /tokens\.logprobs/u],
      [{ ...good, messages: [] }, REFUSED.wrong, /^messages/u],
      [{ ...good, messages: [{ role: 'user', content: 'x' }] }, REFUSED.wrong, /messages\.0\.role/u],
      [{ ...good, messages: said('x'.repeat(300_000)).messages }, REFUSED.wrong, /at most 262144/u],
      [{ ...good, attempt: 2 }, REFUSED.wrong, /attempt/u],
      [{ ...good, turn: 3 }, REFUSED.wrong, /agent\.maxTurns: 2/u],
      [{ ...good, turn: 'one' }, REFUSED.wrong, /turn/u],
      [null, REFUSED.wrong, /report/u],
    ];
    for (const [report, type, message] of refused) {
      const error = await handle.executeUpdate(REPORT_TURN, { args: [report] }).catch((e: unknown) => e);
      expect(error).toMatchObject({ cause: { type, message: expect.stringMatching(message) } });
    }
    expect(await events()).toBeLessThanOrEqual(before + 3 * refused.length);
    expect(await turnsOf(store, attemptOf(id))).toEqual([]);
    await handle.cancel();
    await expect(result()).rejects.toThrow();
  });

  it('ends with its last turn, and a later end gets the same answer', async () => {
    const { program, result } = await begin(WITHOUT, {}, { agent: { maxTurns: 2 } } as never);
    await program.report(said('one'));
    expect(await program.report(said('42'))).toEqual({ turns: 2, finish: 'max-turns' });
    expect(await result()).toMatchObject({ status: 'graded', reward: 1, finish: 'max-turns', turns: 2 });
  });

  it('ends when its reported tokens are spent; a budget that it does not report is refused', async () => {
    const agent = { maxSampledTokens: 3 };
    const { program, result } = await begin(WITHOUT, { tokens: true }, { agent } as Partial<RolloutInput>);
    const tokens = { appended: [1], sampled: [2, 3], logprobs: [-1, -1], temperature: 1 };
    expect(await program.report({ ...said('one'), tokens })).toEqual({ turns: 1 });
    expect(await program.report({ ...said('42'), tokens })).toEqual({ turns: 2, finish: 'token-budget' });
    expect(await result()).toMatchObject({ status: 'graded', reward: 1, finish: 'token-budget' });
    const uncounted = await begin(WITHOUT, {}, { agent } as Partial<RolloutInput>);
    expect(await uncounted.result()).toMatchObject({
      failure: 'bad-input',
      message: expect.stringMatching(/agent\.maxSampledTokens: 3 cannot be used/u),
    });
  });

  it('finds the rollouts of a run that wait for it', async () => {
    const [mine, other] = ['at-work-run', 'another-run'];
    const handles = [];
    for (const run of [mine, other])
      handles.push(
        await world.now.client.workflow.start('rollout', {
          taskQueue: 'orchestrator',
          workflowId: `external-${serial++}`,
          typedSearchAttributes: [{ key: runKey, value: run }],
          args: [{ task: WITHOUT, policy: POLICY, agent: { type: 'external' } }],
        }),
      );
    const found: ExternalRollout[] = [];
    await until(async () => {
      for await (const one of rolloutsAtWork(world.now.client, mine)) found.push(one);
      return found.length > 0;
    });
    expect(found.map(({ workflowId }) => workflowId)).toEqual([handles[0]?.workflowId]);
    await found[0]?.finish('42');
    expect(await found[0]?.result()).toMatchObject({ reward: 1 });
    await handles[1]?.cancel();
  });

  it('waits with its reports while the rollout is paused, and the time does not count', async () => {
    const { handle, program, result } = await begin(WITHOUT, { timeoutSeconds: 2 });
    await program.report(said('one'));
    await handle.signal('pause');
    await until(async () => ((await handle.query('state')) as { paused: boolean }).paused);
    let isOnRecord = false;
    const second = program.report(said('two')).then((answer) => {
      isOnRecord = true;
      return answer;
    });
    await sleep(2500);
    expect(isOnRecord).toBe(false);
    await handle.signal('resume');
    expect(await second).toEqual({ turns: 2 });
    await program.finish('42');
    expect(await result()).toMatchObject({ status: 'graded', reward: 1 });
  });

  it('that is silent until its time is over has no reward: nobody knows whose fault it is', async () => {
    const { program, result } = await begin(WITHOUT, { timeoutSeconds: 1 });
    await program.report(said('one'));
    const end = await result();
    expect(end).toMatchObject({
      status: 'failed',
      failure: 'program-lost',
      message: expect.stringMatching(/timeoutSeconds/u),
    });
    expect(end.reward).toBeUndefined();
    await expect(program.finish('42')).rejects.toMatchObject({ code: 'over' });
  });

  it('whose sandbox is lost starts again in the next attempt', async () => {
    const { id, program, result } = await begin(WITH_SANDBOX, {});
    await program.report(said('one'));
    killProcess(readIdentity(folderOf(bench.stateDir, `${id}#1`), 'inner')!);
    // The sandbox is missed when it is collected from.
    await program.finish('42');
    await until(async () => (await program.begin().catch(() => ({ attempt: 1 }))).attempt === 2);
    await program.report(said('one again'));
    await program.finish('42');
    expect(await result()).toMatchObject({ status: 'graded', reward: 1, attempt: 2, turns: 1 });
    expect(graded[0]?.transcript.map(({ content }) => content)).toEqual(['Do it.', 'one again']);
    expect((await store.get<GenerateRecord>(keys.generate(attemptOf(id), 1)))?.parsed.content).toBe('one');
    expect(await store.get<ActRecord>(keys.act(attemptOf(id, 2), 1))).toBeUndefined();
  });

  it('continues over histories: a report that comes between is repeated, and none is lost', async () => {
    const { handle, program, result } = await begin(WITHOUT, {}, { agent: { maxTurns: 1000 } } as never);
    // The server suggests a new history after 4 MiB.
    const turns = 24;
    for (let turn = 1; turn <= turns; turn += 1)
      expect(await program.report(said(`turn ${turn} ${'x'.repeat(200_000)}`))).toEqual({ turns: turn });
    await program.finish('42');
    expect(await result()).toMatchObject({ turns, reward: 1 });
    expect(graded[0]?.transcript.length).toBe(turns + 1);
    const { runId } = await world.now.client.workflow.getHandle(handle.workflowId).describe();
    expect(runId).not.toBe(handle.firstExecutionRunId);
  });

  it('takes no reports for a rollout whose agent is no program', async () => {
    // No worker here has an engine: its first turn is retried.
    const handle = await world.start('rollout', `external-${serial++}`, { task: WITHOUT, policy: POLICY });
    await until(async () => ((await handle.query('state')) as { phase: string }).phase === 'generate');
    const error = await handle
      .executeUpdate(REPORT_TURN, { args: [{ attempt: 1, turn: 1, ...said('x') }] })
      .catch((e: unknown) => e);
    expect(error).toMatchObject({ cause: { type: REFUSED.wrong, message: expect.stringMatching(/agent\.type/u) } });
    await handle.cancel();
  });
});
