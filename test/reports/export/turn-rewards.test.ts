/**
 * Rewards of single turns in exports. Why: a trainer that sees one number for a rollout cannot credit the turn that
 * earned it. Asserted: a turn's reward is at its last token, the rest at the last sampled one, in every sequence of the
 * rollout; the numbers add up to the reward, also after a cut; a part without turn rewards keeps single numbers in skyrl;
 * VeRL's scores are as wide as its responses; Tinker's lines match its Datums; a rollout that failed has none.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { exportRun } from '../../../reports/export/export-run.ts';
import type { FormatName } from '../../../reports/export/formats/format.ts';
import { type SkyrlOutput, skyrlOutput, tokenRewards } from '../../../reports/export/skyrl/output.ts';
import { openSqliteStore } from '../../../store/sqlite-store.ts';
import type { Store } from '../../../store/store.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { recordTurnRewards, RUN } from './recorded-run.ts';

const root = mkdtempSync(join(tmpdir(), 'longhaul-turn-rewards-'));
let store: Store;

beforeAll(async () => {
  store = openSqliteStore(join(root, 'store'));
  await recordTurnRewards(store, root);
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

/** A tensor of the first part of an export to VeRL, by rows. */
function tensorOf(folder: string, name: string): number[][] {
  const file = readFileSync(join(folder, 'part-00000.safetensors'));
  const size = Number(file.readBigUInt64LE());
  const header = JSON.parse(file.toString('utf8', 8, 8 + size)) as Record<
    string,
    { readonly dtype: string; readonly shape: [rows: number, width: number]; readonly data_offsets: [number, number] }
  >;
  const { dtype, shape, data_offsets: offsets } = header[name]!;
  const [begin, end] = offsets.map((at) => 8 + size + at);
  const bytes = file.buffer.slice(file.byteOffset + begin!, file.byteOffset + end!);
  const values = dtype === 'F32' ? [...new Float32Array(bytes)] : Array.from(new BigInt64Array(bytes), Number);
  const [rows, width] = shape;
  return Array.from({ length: rows }, (_, row) => values.slice(row * width, (row + 1) * width));
}

it('has scores by token in verl, as wide as the responses, with turn rewards and without', async () => {
  const folder = await exported('verl', { step: 1 });
  const scores = tensorOf(folder, 'rm_scores');
  expect(scores).toEqual([
    [0, 0.25, 0, 0, -0.5, 0, 1.25],
    [0.5, 0, 0, 0, 0, 0, 0],
    [0, 0.5, 0, 0, 0, 0, 0],
    [0.25, 0, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 0, 0],
  ]);
  expect(tensorOf(folder, 'responses').map((row) => row.length)).toEqual(scores.map((row) => row.length));
  const cut = tensorOf(await exported('verl', { step: 1, maxResponseTokens: 4 }), 'rm_scores');
  expect([cut[0], cut[3]]).toEqual([
    [0, 0.25, 0, 0.75],
    [0.25, 0, 0, 0],
  ]);
  expect(tensorOf(await exported('verl', { step: 2 }), 'rm_scores')).toEqual([[0.25]]);
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
