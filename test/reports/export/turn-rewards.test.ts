/**
 * Rewards of single turns in exports. Why: a trainer that sees one number for a rollout cannot credit the turn that
 * earned it. Asserted: a turn's reward is at its last token, the rest at the last sampled one, in every sequence of the
 * rollout; the numbers add up to the reward, also after a cut; a part without turn rewards keeps single numbers; Tinker's
 * lines match its Datums; a rollout that failed has none.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ActRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { exportRun } from '../../../reports/export/export-run.ts';
import type { FormatName } from '../../../reports/export/formats/format.ts';
import { type SkyrlOutput, skyrlOutput, tokenRewards } from '../../../reports/export/skyrl/output.ts';
import { openSqliteStore } from '../../../store/sqlite-store.ts';
import type { Store } from '../../../store/store.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { putRollout, putRun, putStep, RUN, turn } from './recorded-run.ts';

const root = mkdtempSync(join(tmpdir(), 'longhaul-turn-rewards-'));
let store: Store;

const step = { command: { do: 'step' } } as const;

/** Records what the environment's steps gave, by turn. */
async function putRewards(rollout: string, rewards: Readonly<Record<number, number>>): Promise<void> {
  const attempt = { run: RUN, rollout, attempt: 1, task: '' };
  for (const [at, reward] of Object.entries(rewards))
    await store.putOnce<ActRecord>(keys.act(attempt, Number(at)), { messages: [], reward });
}

beforeAll(async () => {
  store = openSqliteStore(join(root, 'store'));
  await putRun(store, root);
  const batch = `train/${RUN}/step-1`;
  const task = 'swe-mini-train-0';
  const three = [turn([1, 2], [3, 4], 'a', step), turn([5], [6, 7], 'b', step), turn([8], [9], 'c', step)];
  const rollouts = [
    await putRollout(store, batch, task, 0, { reward: 1, finish: 'done', turns: three }),
    // The template rewrote the context before the second turn: two sequences.
    await putRollout(store, batch, task, 1, {
      reward: 0.5,
      finish: 'done',
      turns: [turn([1, 2], [3], 'a', step), turn([4, 4], [5, 6], 'b', { ...step, reset: true })],
    }),
    await putRollout(store, batch, task, 2, { reward: 0.25, finish: 'answer', turns: [turn([1, 2], [3], 'plain')] }),
    await putRollout(store, batch, task, 3, { failure: 'grader-failed', turns: [turn([1, 2], [3, 3], 'x', step)] }),
  ];
  await putRewards(rollouts[0]!, { 1: 0.25, 2: -0.5 });
  await putRewards(rollouts[1]!, { 1: 0, 2: 0.125 });
  await putRewards(rollouts[3]!, { 1: 4 });
  await putStep(store, 1, [{ task, rollouts }]);
  const plain = { reward: 0.25, finish: 'answer', turns: [turn([1, 2], [3], 'plain')] } as const;
  await putStep(store, 2, [{ task, rollouts: [await putRollout(store, `train/${RUN}/step-2`, task, 0, plain)] }]);
});

afterAll(async () => {
  await store.close();
  rmSync(root, { recursive: true, force: true });
});

async function exported(format: FormatName, over: { maxResponseTokens?: number; step?: number } = {}): Promise<string> {
  const out = join(mkdtempSync(join(root, 'out-')), format);
  mkdirSync(out);
  await exportRun(
    { name: RUN, format, out, validOnly: false, fill: false, padTokenId: 0, removesReasoning: false, ...over },
    { store, tasks: new TaskLoader(store), signal: new AbortController().signal, note: () => undefined },
  );
  return out;
}

const skyrl = async (over: Parameters<typeof exported>[1] = {}): Promise<SkyrlOutput> =>
  JSON.parse(readFileSync(join(await exported('skyrl', over), 'part-00000.json'), 'utf8')) as SkyrlOutput;

it('has rewards by token in skyrl where a turn has one, in all rows alike', async () => {
  const output = await skyrl({ step: 1 });
  expect(output.response_ids[0]).toEqual([3, 4, 5, 6, 7, 8, 9]);
  expect(output.rewards).toEqual([
    [0, 0.25, 0, 0, -0.5, 0, 1.25],
    // Each sequence has the rollout's whole reward, as in training.
    [0.5],
    [0, 0.5],
    [0.25],
    [0, 0],
  ]);
  expect(output.traj_rewards).toEqual([1, 0.5, 0.25, 0]);
  const lengths = output.response_ids.map((ids) => ids.length);
  expect(output.rewards.map((row) => (row as number[]).length)).toEqual(lengths);
});

it('keeps the sum where a cut removes turns', async () => {
  const { rewards, response_ids: ids } = await skyrl({ step: 1, maxResponseTokens: 4 });
  expect(ids[0]).toEqual([3, 4, 5, 6]);
  expect(rewards[0]).toEqual([0, 0.25, 0, 0.75]);
});

it('has single numbers in a part without them', async () => {
  expect((await skyrl({ step: 2 })).rewards).toEqual([0.25]);
});

it('has a line of rewards for each Datum of tinker', async () => {
  const folder = await exported('tinker', { step: 1 });
  const lines = <T>(name: string): T[] =>
    readFileSync(join(folder, name), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as T);
  const rewards = lines<{ data: number[]; dtype: string; shape: number[] }>('rewards.jsonl');
  const datums = lines<{ loss_fn_inputs: { target_tokens: { data: number[] } } }>('datums.jsonl');
  expect(rewards[0]).toEqual({ data: [0, 0, 0.25, 0, 0, -0.5, 0, 1.25], dtype: 'float32', shape: [8] });
  expect(rewards.map(({ shape: [length] }) => length)).toEqual(
    datums.map(({ loss_fn_inputs: { target_tokens: targets } }) => targets.data.length),
  );
  // A mean over the rollouts that are graded: 1, 0.5 and 0.25.
  expect(rewards.map(({ data }) => data.reduce((a, b) => a + b, 0))).toEqual([1, 0.5, 0.5, 0.25, 0]);
});

it('counts sampled tokens, also if observed ones are between them, and gives an empty response nothing', () => {
  expect(tokenRewards({ mask: [1, 0, 0, 1, 0], turnRewards: [[1, 2]] }, 3)).toEqual([2, 0, 0, 1, 0]);
  expect(tokenRewards({ mask: [0, 0] }, 3)).toEqual([0, 3]);
  expect(tokenRewards({ mask: [] }, 3)).toEqual([]);
  const masked = skyrlOutput([
    {
      instance: 'a',
      trajectory: 0,
      turns: 1,
      sequences: [{ prompt: [1], response: [2, 3], mask: [1, 1], logprobs: null, turnRewards: [[1, 0.5]] }],
      reward: 1,
      finishReason: 'max_iterations_reached',
    },
  ]);
  expect([masked.rewards, masked.loss_masks]).toEqual([[[0.5, 0.5]], [[0, 0]]]);
});
