/**
 * Hunts a lost sandbox that costs a rollout more than the running call: real Temporal, store, tools, grader and
 * bubblewrap sandboxes, whose supervisor is killed in the middle. Only the policy is scripted. Not asserted: the loss
 * of a whole host; its queue then has no worker, which the workflow detects by a timeout.
 */
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { createAgentRunActivities } from '../../../activities/agent-run/agent-run.ts';
import { createInitActivities } from '../../../activities/init/init.ts';
import type { GenerateRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { actsOf, turnsOf } from '../../../store/read-records.ts';
import { createRewardActivities } from '../../../activities/reward/reward.ts';
import type { ToolCall } from '../../../protocol/message.ts';
import { killProcess } from '../../../sandboxes/supervised/process-identity.ts';
import { folderOf, readIdentity } from '../../../sandboxes/supervised/state.ts';
import type { RolloutResult } from '../../../protocol/rollout.ts';
import type { CollectOutcome, GenerateInput, GenerateOutcome } from '../../../protocol/stages.ts';
import { type Bench, openBench } from '../../sandboxes/harness.ts';
import { useStoreWorld } from '../../support/use-store-world.ts';

const TASK = 'swe-mini-train-0';
const bench: Bench = await openBench();
/** What happens when a turn is sampled. */
let atTurn: (input: GenerateInput) => void | Promise<void> = () => undefined;
let turns: ReadonlyArray<readonly ToolCall[]> = [];

const bash = (command: string): ToolCall => ({ name: 'bash', arguments: { command } });
const editor = (given: Record<string, unknown>): ToolCall => ({ name: 'str_replace_editor', arguments: given });

/**
 * The shell's directory, variables and functions, the editor's memory and a background process: all of it matters
 * later.
 */
const WORK: ReadonlyArray<readonly ToolCall[]> = [
  [
    bash(
      'mkdir -p notes && cd notes && export WHO=me && greet() { echo "hello $1"; } && plain=kept && echo one > a.txt && pwd',
    ),
  ],
  [
    editor({ command: 'create', path: '/work/notes/b.txt', file_text: 'first\n' }),
    editor({ command: 'str_replace', path: '/work/notes/b.txt', old_str: 'first', new_str: 'second' }),
  ],
  [bash('greet $WHO-$plain >> a.txt; cat a.txt')],
  [bash('echo begun >> a.txt'), bash('sleep 1; echo two >> a.txt; cat a.txt')],
  [
    editor({ command: 'undo_edit', path: '/work/notes/b.txt' }),
    bash('cat b.txt; git add -A . && git commit -qm work; git log --oneline | wc -l'),
  ],
];

async function generate(input: GenerateInput): Promise<GenerateOutcome> {
  await atTurn(input);
  const calls = turns[input.turn - 1] ?? [{ name: 'finish', arguments: {} }];
  const key = keys.generate(input, input.turn);
  await store.begin(`model:${key}`);
  const record = {
    version: 0,
    appended: [input.turn],
    reset: false,
    sampled: [7, input.turn],
    logprobs: [-1, -2],
    end: 'stop' as const,
    parsed: { kind: 'calls' as const, content: '', calls },
  };
  await store.putOnce<GenerateRecord>(key, record);
  const finish = calls[0]?.name === 'finish';
  return {
    kind: finish ? 'finish' : 'act',
    calls: finish ? 0 : calls.length,
    contextTokens: 1,
    sampledTokens: 2,
    line: 'said',
  };
}

const world = useStoreWorld((over, scripted) => {
  const parts = { store: over, tasks: new TaskLoader(over), provider: bench.provider, host: 'test-host' };
  return {
    init: createInitActivities({ ...parts, maxLiveSandboxes: 1, sandboxTtlSeconds: 60 }),
    agentRun: createAgentRunActivities({ ...parts, sandboxTtlSeconds: 60 }),
    reward: createRewardActivities(parts),
    gpu: { ...scripted.gpu, generate },
  };
});
const { store } = world;

function kill(sandbox: string): void {
  const inner = readIdentity(folderOf(bench.stateDir, sandbox), 'inner');
  if (!inner) throw new Error(`${sandbox} has no supervisor`);
  killProcess(inner);
}

async function rollout(id: string): Promise<RolloutResult> {
  return (
    await world.start('rollout', id, { task: TASK, policy: { uri: 'file:///p', version: 0 } })
  ).result() as Promise<RolloutResult>;
}

/** The results of a rollout: tokens, answers and the diff. */
async function traceOf(id: string, attempt = 1) {
  const at = { run: id, rollout: id, attempt, task: TASK };
  const collected = await store.get<CollectOutcome>(keys.collect(at));
  const acts = [...(await actsOf(store, at)).values()];
  return {
    turns: await turnsOf(store, at),
    answers: acts.map(({ messages }) => messages),
    digests: acts.map(({ digest }) => digest),
    diff: collected?.artifact,
  };
}

const begun = async () => {
  const repeats = await store.repeats();
  return { model: repeats['model'] ?? 0, tool: repeats['tool'] ?? 0, replay: repeats['replay'] ?? 0 };
};

it('continues from its turn after its sandboxes were killed between two calls and during one, to the same tokens, answers and diff', async () => {
  turns = WORK;
  expect(await rollout('undisturbed')).toMatchObject({ status: 'graded', attempt: 1, turns: 6 });
  const expected = await traceOf('undisturbed');
  expect(expected.digests.every((digest) => digest !== undefined)).toBe(true);
  expect(expected.answers.flat().filter(({ content }) => content.startsWith('Error'))).toEqual([]);
  expect(new Set(expected.digests).size).toBe(5);
  const asked: number[] = [];
  atTurn = ({ turn, rollout: id, attempt }) => {
    asked.push(turn);
    if (turn === 3) kill(`${id}#${attempt}`);
    // In the second call of the turn, whose first one is answered by then.
    if (turn === 4) {
      const key = keys.answer({ run: id, rollout: id, attempt, task: TASK }, 4, 0);
      void (async () => {
        while ((await store.get(key)) === undefined) await sleep(20);
        await sleep(200);
        kill(`${id}#${attempt}~1`);
      })();
    }
  };
  const before = await begun();
  expect(await rollout('disturbed')).toMatchObject({ status: 'graded', attempt: 1, turns: 6, restores: 2 });
  expect(await traceOf('disturbed')).toEqual(expected);
  expect(asked).toEqual([1, 2, 3, 4, 5, 6]);
  // Only the interrupted tool call was started twice.
  expect(await begun()).toEqual({ model: before.model, tool: before.tool + 1, replay: 0 });
  expect(await bench.provider.list()).toEqual([]);
  expect(await store.leases('sandbox')).toEqual([]);
});

it('starts its next attempt if the workspace cannot be restored, and reports its number', async () => {
  turns = [[bash('date +%s%N > stamp')], [bash('echo more >> stamp')]];
  let killed = false;
  atTurn = ({ turn, rollout: id, attempt }) => {
    if (turn !== 2 || killed) return;
    killed = true;
    kill(`${id}#${attempt}`);
  };
  expect(await rollout('stamped')).toMatchObject({ status: 'graded', attempt: 2, turns: 3 });
  expect((await traceOf('stamped', 1)).diff).toBeUndefined();
  expect((await traceOf('stamped', 2)).diff).toMatch(/^sha256:/);
  expect(await bench.provider.list()).toEqual([]);
  expect(await store.leases('sandbox')).toEqual([]);
});
