/**
 * Hunts sub-agents and segments that a kill, a pause or a new history loses, or runs twice: real Temporal, store,
 * tools and sandboxes. The policy is the task's oracle, by the real activity. Every history is short, so each rollout
 * has several. Not asserted: what agents see of each other; see test/activities/sub-agents.test.ts.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { createAgentRunActivities } from '../../../activities/agent-run/agent-run.ts';
import { generateTurn, type GenerateDeps } from '../../../activities/generate/generate.ts';
import { createInitActivities } from '../../../activities/init/init.ts';
import { createRewardActivities } from '../../../activities/reward/reward.ts';
import { placeText } from '../../../protocol/frames.ts';
import type { Message, ToolCall } from '../../../protocol/message.ts';
import { keys } from '../../../protocol/record-keys.ts';
import type { RolloutResult } from '../../../protocol/rollout.ts';
import type { CollectOutcome, GenerateInput } from '../../../protocol/stages.ts';
import { killProcess } from '../../../sandboxes/supervised/process-identity.ts';
import { folderOf, readIdentity } from '../../../sandboxes/supervised/state.ts';
import { actsOf, turnsOf } from '../../../store/read-records.ts';
import { defineEnvironment } from '../../../tasks/registry.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import type { RolloutState } from '../../../workflows/rollout.ts';
import { type Bench, openBench } from '../../sandboxes/harness.ts';
import { useStoreWorld } from '../../support/use-store-world.ts';

const TASK = 'shops-train-0';
const bench: Bench = await openBench();
let atTurn: (input: GenerateInput) => void | Promise<void> = () => undefined;

const bash = (command: string): ToolCall => ({ name: 'bash', arguments: { command } });
const delegate = (agent: string): ToolCall => ({ name: 'delegate', arguments: { agent, prompt: 'Do your part.' } });
const finish = (answer: string): ToolCall => ({ name: 'finish', arguments: { answer } });
const says = (...toolCalls: ToolCall[]): Message => ({ role: 'assistant', content: '', toolCalls });

/** Turn by turn. A variable of the shell matters to another agent later. */
const ORACLE: readonly Message[] = [
  says(bash('export LIST="figs plums"; echo list > a.txt'), delegate('shopper')),
  says(bash('for fruit in $LIST; do echo $fruit >> basket; done; cat basket')),
  says(bash('echo bought >> a.txt'), delegate('packer')),
  says(bash('echo packing >> a.txt'), bash('sleep 1; cp basket packed; cat packed')),
  says(bash('echo packed >> a.txt'), finish('packed two')),
  says({ name: 'next_with_summary', arguments: { summary: 'Bought, packed.' } }),
  says(bash('wc -l < packed'), finish('shopped')),
  says(bash('cat a.txt packed')),
  says(finish('done')),
];
const PLACES = [
  '',
  'shopper',
  'shopper',
  'shopper > packer',
  'shopper > packer',
  'shopper',
  'shopper, segment 2',
  '',
  '',
];

defineEnvironment({
  name: 'shops',
  open: async () =>
    await Promise.resolve({
      digest: 'shops',
      splits: { train: 1 },
      load: async () =>
        await Promise.resolve({
          messages: [{ role: 'user' as const, content: 'Have it done.' }],
          tools: ['bash', 'delegate', 'finish'],
          agents: {
            shopper: { description: 'shops.', tools: ['bash', 'delegate', 'next_with_summary', 'finish'] },
            packer: { description: 'packs.', tools: ['bash', 'finish'] },
          },
          sandboxes: {
            main: { workdir: '/work', files: [], env: {}, limits: { memoryMiB: 256, processes: 32, diskMiB: 32 } },
          },
          collect: async (ctx) => {
            const found = await (await ctx.sandbox()).read('a.txt', 1000);
            return found.kind === 'file' ? found.content : new Uint8Array();
          },
          grade: async (_ctx, { artifact }) =>
            await Promise.resolve({
              code: 'graded' as const,
              reward: Buffer.from(artifact).toString() === 'list\nbought\npacking\npacked\n' ? 1 : 0,
              passed: true,
              reason: '',
            }),
          oracle: async () => await Promise.resolve(ORACLE),
        }),
    }),
});

const world = useStoreWorld(
  (over, scripted) => {
    const tasks = new TaskLoader(over);
    const parts = { store: over, tasks, provider: bench.provider, host: 'test-host' };
    const { signal } = new AbortController();
    return {
      init: createInitActivities({ ...parts, maxLiveSandboxes: 1, sandboxTtlSeconds: 60 }),
      agentRun: createAgentRunActivities({ ...parts, sandboxTtlSeconds: 60 }),
      reward: createRewardActivities(parts),
      gpu: {
        ...scripted.gpu,
        generate: async (input: GenerateInput) => {
          await atTurn(input);
          return generateTurn(input, { store: over, tasks } as unknown as GenerateDeps, signal);
        },
      },
    };
  },
  ['--dynamic-config-value=limit.historyCount.suggestContinueAsNew=60'],
);
const { store } = world;

function kill(sandbox: string): void {
  const inner = readIdentity(folderOf(bench.stateDir, sandbox), 'inner');
  if (!inner) throw new Error(`${sandbox} has no supervisor`);
  killProcess(inner);
}

const start = (id: string) =>
  world.start('rollout', id, { task: TASK, policy: { scripted: 'oracle', version: 0 }, agent: { maxTurns: 20 } });
const rollout = async (id: string): Promise<RolloutResult> => (await start(id)).result() as Promise<RolloutResult>;

async function traceOf(id: string) {
  const at = { run: id, rollout: id, attempt: 1, task: TASK };
  const turns = await turnsOf(store, at);
  const acts = [...(await actsOf(store, at)).values()];
  return {
    turns,
    places: turns.map(placeText),
    answers: acts.map(({ messages }) => messages),
    digests: acts.map(({ digest }) => digest),
    artifact: (await store.get<CollectOutcome>(keys.collect(at)))?.artifact,
  };
}

const left = async () => [await bench.provider.list(), await store.leases('sandbox')];
const GRADED = { status: 'graded', attempt: 1, turns: 9, reward: 1, finish: 'finish-tool' };

it("continues in a sub-agent's turn after its sandbox was killed before, between and after its calls", async () => {
  atTurn = () => undefined;
  expect(await rollout('undisturbed')).toMatchObject(GRADED);
  const expected = await traceOf('undisturbed');
  expect(expected.places).toEqual(PLACES);
  expect(expected.answers.flat().filter(({ content }) => content.startsWith('Error'))).toEqual([]);
  const asked: number[] = [];
  atTurn = ({ turn, rollout: id, attempt }) => {
    asked.push(turn);
    if (turn === 2) kill(`${id}#${attempt}`);
    if (turn === 8) kill(`${id}#${attempt}~2`);
    if (turn !== 4) return;
    // In the second call of the turn, whose first one is answered by then.
    const key = keys.answer({ run: id, rollout: id, attempt, task: TASK }, 4, 0);
    void (async () => {
      while ((await store.get(key)) === undefined) await sleep(20);
      await sleep(200);
      kill(`${id}#${attempt}~1`);
    })();
  };
  expect(await rollout('disturbed')).toMatchObject({ ...GRADED, restores: 3 });
  expect(await traceOf('disturbed')).toEqual(expected);
  expect(asked).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
  expect(await left()).toEqual([[], []]);
});

it('is the same in several histories, after a pause inside of a sub-agent', async () => {
  let paused = false;
  atTurn = async ({ turn, rollout: id }) => {
    if (turn !== 4 || paused) return;
    paused = true;
    await world.now.client.workflow.getHandle(id).signal('pause');
  };
  const handle = await start('paused');
  const stateNow = () => handle.query<RolloutState>('state');
  await expect.poll(async () => (await stateNow()).turn, { interval: 50, timeout: 30_000 }).toBe(5);
  await expect.poll(async () => (await stateNow()).phase, { interval: 50 }).toBe('generate');
  const { frames, paused: stands } = await stateNow();
  expect([frames.map(({ name }) => name), stands]).toEqual([['', 'shopper@1', 'packer@3'], true]);
  await handle.signal('resume');
  expect(await handle.result()).toMatchObject(GRADED);
  expect(await traceOf('paused')).toEqual(await traceOf('undisturbed'));
  const { runId } = await world.now.client.workflow.getHandle('paused').describe();
  expect(runId).not.toBe(handle.firstExecutionRunId);
});

it('that was terminated inside of a sub-agent repeats its turns from the records when it starts again', async () => {
  const before = (await store.repeats())['tool'] ?? 0;
  let reached: () => void = () => undefined;
  const there = new Promise<void>((resolve) => (reached = resolve));
  let isFirst = true;
  atTurn = async ({ turn }) => {
    if (turn !== 5 || !isFirst) return;
    isFirst = false;
    reached();
    await sleep(300);
    throw new Error('its workflow is gone');
  };
  const handle = await start('terminated');
  await there;
  await handle.terminate('test');
  expect(await rollout('terminated')).toMatchObject(GRADED);
  expect(await traceOf('terminated')).toEqual(await traceOf('undisturbed'));
  expect((await store.repeats())['tool'] ?? 0).toBe(before);
  expect(await left()).toEqual([[], []]);
});
