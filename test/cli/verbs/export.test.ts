/**
 * Hunts exports that make something up, lose a rollout, hide a mask, leak held-out rollouts, or overwrite a folder. It
 * does not read the files in Python: `test/interop/` does.
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCommandLine } from '../../../cli/run.ts';
import { keys } from '../../../protocol/record-keys.ts';
import type { ChatRecord } from '../../../reports/export/formats/chat-record.ts';
import type { ExportReport } from '../../../reports/export/export-run.ts';
import type { SkyrlOutput } from '../../../reports/export/skyrl/output.ts';
import { evalKeys, type EvalRecord } from '../../../reports/evaluation/eval-records.ts';
import { chatSchema } from '../../../recipes/sft/chat-records.ts';
import { openStore, sqliteUrl } from '../../../store/open-store.ts';
import { readRecords } from '../../../tasks/data/read-records.ts';
import { putRollout, putRun, putStep, recordRun, RUN, turn } from '../../reports/export/recorded-run.ts';

const dir = realpathSync(mkdtempSync(join(tmpdir(), 'longhaul-export-')));
const env = { ...process.env, LONGHAUL_HOME: join(dir, 'home'), LONGHAUL_STORE: sqliteUrl(join(dir, 'store')) };
let made = 0;

type Document = ExportReport & { readonly out: string; readonly error: Record<string, unknown> };

async function call(args: readonly string[], own: NodeJS.ProcessEnv = env) {
  let [out, err] = ['', ''];
  const exitCode = await runCommandLine(['export', ...args, '--json'], {
    out: (text) => void (out += text),
    err: (text) => void (err += text),
    env: own,
    cwd: dir,
    signal: new AbortController().signal,
  });
  return { exitCode, document: JSON.parse(out) as Document, err };
}

/** An export into a new folder. */
async function exported(format: string, ...more: string[]) {
  made += 1;
  const { exitCode, document } = await call([RUN, '--format', format, '--out', `out-${made}`, ...more]);
  expect(document.error).toBeUndefined();
  expect(exitCode).toBe(0);
  const text = (name: string) => readFileSync(join(document.out, name), 'utf8');
  const lines = <Row>(name: string) =>
    text(name)
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Row);
  return { document, text, lines, json: <Value>(name: string) => JSON.parse(text(name)) as Value };
}

beforeAll(async () => {
  const store = await openStore(env.LONGHAUL_STORE);
  await recordRun(store, dir);
  await store.close();
});
afterAll(() => rmSync(dir, { recursive: true }));

describe('skyrl', () => {
  it('has the eleven keys, masks by SkyRL and by training, and all log-probabilities', async () => {
    const { json, document, lines } = await exported('skyrl');
    const output = json<SkyrlOutput>('part-00000.json');
    expect(Object.keys(output)).toHaveLength(11);
    expect(output).toMatchObject({
      prompt_token_ids: [
        [1, 2, 3],
        [1, 2, 3],
        [9, 9],
        [1, 2],
        [1, 2],
        [1, 2],
      ],
      response_ids: [[4, 5, 6, 7, 8], [4], [5], [3, 4, 5], [6], [3]],
      rewards: [1, 0, 0, 0.5, 1, 1],
      traj_rewards: [1, 0, 0.5, 1, 1],
      // The turns of the second rollout ran out: SkyRL masks that. Training masked the old one.
      loss_masks: [[1, 1, 0, 1, 1], [0], [0], [1, 1, 1], [0], [1]],
      episode_nums: [1, 2, 1, 1, 1],
      is_last_episode: [true, false, true, true, true, true],
      stop_reasons: [null, null, null, null, null, null],
      rollout_metrics: {
        'rollout_metrics/num_empty_messages': 1,
        'rollout_metrics/finish_tool_ratio': 0.2,
        'rollout_metrics/tool_name/bash': 1,
      },
    });
    expect(output.rollout_logprobs[0]).toEqual([-0.5, -0.625, 0, -0.875, -1]);
    expect(output.traj_idx[1]).toBe('step-1/swe-mini-train-0-traj1');
    expect(document).toMatchObject({
      rollouts: 6,
      groups: 3,
      rows: 6,
      withoutRows: 1,
      masked: { 'sandbox-unavailable': 1, 'too-stale': 1 },
    });
    expect(lines<Record<string, unknown>>('rollouts.jsonl')).toMatchObject([
      { sample: 0, first: 0, rows: 1, masked: null, skyrl_finish_reason: 'FINISH_TOOL', step: 1 },
      { sample: 1, first: 1, rows: 2, skyrl_finish_reason: 'max_iterations_reached' },
      { sample: 0, masked: 'sandbox-unavailable', skyrl_finish_reason: 'error_runtime' },
      { sample: 1, first: 3, rows: 1, reward: 0.5 },
      { sample: 2, first: 4, rows: 1, masked: 'too-stale' },
      { step: 2, first: 5, rows: 1 },
    ]);
  });

  it('--fill lets a masked copy stand for a rollout without turns, --step and the cut select', async () => {
    const { json, lines } = await exported('skyrl', '--fill', '--step', '1', '--max-response-tokens', '2');
    const output = json<SkyrlOutput>('part-00000.json');
    expect(output.response_ids).toEqual([[4, 5], [4], [5], [3, 4], [3, 4], [6]]);
    expect(output.loss_masks[3]).toEqual([0, 0]);
    expect(output.rollout_metrics['rollout_metrics/num_empty_messages']).toBe(1);
    expect(lines('rollouts.jsonl')[2]).toMatchObject({ masked: 'sandbox-unavailable', first: 3, rows: 1 });
  });
});

describe('tinker', () => {
  it('has a Datum a sequence: shifted, with the advantage on sampled tokens of valid rollouts', async () => {
    const { lines } = await exported('tinker');
    const rows =
      lines<Record<string, Record<string, { data: number[]; shape: number[]; dtype: string }>>>('datums.jsonl');
    expect(rows).toHaveLength(6);
    expect(rows[0]).toEqual({
      model_input: { chunks: [{ type: 'encoded_text', tokens: [1, 2, 3, 4, 5, 6, 7] }] },
      loss_fn_inputs: {
        target_tokens: { data: [2, 3, 4, 5, 6, 7, 8], dtype: 'int64', shape: [7] },
        logprobs: { data: [0, 0, -0.5, -0.625, 0, -0.875, -1], dtype: 'float32', shape: [7] },
        advantages: { data: [0, 0, 0.5, 0.5, 0, 0.5, 0.5], dtype: 'float32', shape: [7] },
      },
    });
    // The masked rollout of the second group is in no baseline: its reward of 1 would lower the other one's advantage.
    expect(rows[3]?.['loss_fn_inputs']?.['advantages']?.data).toEqual([0, 0, 0, 0]);
    expect(rows[4]?.['loss_fn_inputs']?.['advantages']?.data).toEqual([0, 0]);
    const rewards = lines<{ readonly data: number[]; readonly shape: number[]; readonly dtype: string }>(
      'rewards.jsonl',
    );
    expect(rewards).toHaveLength(6);
    expect(rewards[0]).toEqual({ data: [0, 0, 0, 0, 0, 0, 1], dtype: 'float32', shape: [7] });
    expect(rewards[3]?.data).toEqual([0, 0, 0, 0.5]);
  });
});

describe('verl', () => {
  it('pads prompts on the left and responses on the right', async () => {
    const { document, json } = await exported('verl', '--pad-token-id', '77');
    const bytes = readFileSync(join(document.out, 'part-00000.safetensors'));
    const headerLength = Number(bytes.readBigUInt64LE());
    const header = JSON.parse(bytes.subarray(8, 8 + headerLength).toString()) as Record<
      string,
      { dtype: string; shape: number[]; data_offsets: [number, number] }
    >;
    const tensor = (name: string): number[][] => {
      const {
        shape,
        dtype,
        data_offsets: [from, to],
      } = header[name]!;
      const part = bytes.subarray(8 + headerLength + from, 8 + headerLength + to);
      const width = shape[1] ?? 0;
      const size = dtype === 'I64' ? 8 : 4;
      const values = Array.from({ length: part.length / size }, (_, i) =>
        dtype === 'I64' ? Number(part.readBigInt64LE(i * 8)) : part.readFloatLE(i * 4),
      );
      return Array.from({ length: shape[0] ?? 0 }, (_, row) => values.slice(row * width, (row + 1) * width));
    };
    expect(tensor('prompts').slice(0, 3)).toEqual([
      [1, 2, 3],
      [1, 2, 3],
      [77, 9, 9],
    ]);
    expect(tensor('responses').slice(0, 2)).toEqual([
      [4, 5, 6, 7, 8],
      [4, 77, 77, 77, 77],
    ]);
    expect(tensor('response_mask').slice(0, 4)).toEqual([
      [1, 1, 0, 1, 1],
      [0, 0, 0, 0, 0],
      [0, 0, 0, 0, 0],
      [1, 1, 1, 0, 0],
    ]);
    expect(tensor('input_ids')[2]).toEqual([77, 9, 9, 5, 77, 77, 77, 77]);
    expect(tensor('attention_mask')[2]).toEqual([0, 1, 1, 1, 0, 0, 0, 0]);
    expect(tensor('position_ids')[2]).toEqual([0, 0, 1, 2, 2, 2, 2, 2]);
    expect(tensor('rollout_log_probs')[0]).toEqual([-0.5, -0.625, 0, -0.875, -1]);
    const { non_tensors: columns, meta_info: meta } = json<Record<string, Record<string, unknown>>>('part-00000.json');
    expect(columns).toMatchObject({
      rewards: [1, 0, 0, 0.5, 1, 1],
      masked: [null, null, null, null, 'too-stale', null],
    });
    expect(meta).toMatchObject({ pad_token_id: 77, rollout_metrics: { 'rollout_metrics/num_empty_messages': 1 } });
  });
});

describe('chats', () => {
  const form = { messages: 'messages', prompt: 'prompt', answer: 'answer', loss: 'all' } as const;

  it('are records that supervised training reads back, as JSON lines and as Parquet', async () => {
    const [json, parquet] = [await exported('jsonl'), await exported('parquet')];
    const records = json.lines<ChatRecord>('chats.jsonl');
    expect(records).toHaveLength(5);
    expect(records[0]).toMatchObject({
      reward: 1,
      passed: true,
      masked: null,
      reason: 'graded 1',
      metadata: { step: 1 },
    });
    expect(records[0]?.messages.slice(-3)).toEqual([
      {
        role: 'assistant',
        content: 'I look.',
        tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'bash', arguments: '{"command":"ls"}' } }],
      },
      { role: 'tool', name: 'bash', tool_call_id: 'call_1', content: 'a.py' },
      {
        role: 'assistant',
        content: '',
        tool_calls: [{ id: 'call_2', type: 'function', function: { name: 'finish', arguments: '{"answer":"done"}' } }],
      },
    ]);
    expect(records[0]?.tools.map(({ function: { name } }) => name)).toContain('bash');
    expect(records.map(({ masked }) => masked)).toEqual([null, null, null, 'too-stale', null]);
    const read = (file: string) => readRecords(file, chatSchema(form));
    const lines = await read(join(json.document.out, 'chats.jsonl'));
    const typed = await read(join(parquet.document.out, 'chats.parquet'));
    expect(lines.rows).toHaveLength(5);
    expect(typed.rows).toEqual(lines.rows);
    expect(lines.rows[0]?.turns.filter(({ trained }) => trained)).toHaveLength(2);
  });

  it('--valid-only leaves out what is masked, and counts it', async () => {
    const { document, lines } = await exported('jsonl', '--valid-only');
    expect(lines<ChatRecord>('chats.jsonl').every(({ masked }) => masked === null)).toBe(true);
    expect(document).toMatchObject({ rollouts: 4, leftOut: 2, masked: { 'sandbox-unavailable': 1, 'too-stale': 1 } });
  });
});

describe('what is refused', () => {
  it('a folder with files, which stays as it is', async () => {
    mkdirSync(join(dir, 'full'));
    writeFileSync(join(dir, 'full', 'mine'), 'mine');
    expect(await call([RUN, '--format', 'jsonl', '--out', 'full'])).toMatchObject({
      exitCode: 2,
      document: { error: { field: '--out', value: join(dir, 'full') } },
    });
    expect(readdirSync(join(dir, 'full'))).toEqual(['mine']);
    mkdirSync(join(dir, 'empty'));
    expect(await call([RUN, '--format', 'jsonl', '--out', 'empty'])).toMatchObject({ exitCode: 0 });
    expect(readdirSync(join(dir, 'empty')).toSorted()).toEqual(['chats.jsonl', 'export.json', 'rollouts.jsonl']);
    expect(readdirSync(dir).filter((name) => name.includes('partial'))).toEqual([]);
  });

  it.each([
    [['--format', 'csv', '--out', 'x'], '--format', 'skyrl'],
    [['--format', 'jsonl', '--out', 'x', '--fill'], '--fill', 'skyrl'],
    [['--format', 'skyrl', '--out', 'x', '--pad-token-id', '1'], '--pad-token-id', 'verl'],
    [['--format', 'skyrl', '--out', 'x', '--step', '9'], '--step', 'from 1 to 2'],
    [['--format', 'verl', '--out', 'x', '--tokenizer', 'nowhere'], '--tokenizer', 'tokenizer.json'],
    [['--format', 'skyrl', '--out', 'x', '--remove-reasoning'], '--remove-reasoning', '--tokenizer'],
  ] as const)('%j', async (args, field, remedy) => {
    expect(await call([RUN, ...args])).toMatchObject({
      exitCode: 2,
      document: { error: { field, remedy: expect.stringContaining(remedy) as string } },
    });
  });

  it('an unknown run', async () => {
    expect(await call(['q', '--format', 'jsonl', '--out', 'x'])).toMatchObject({ exitCode: 2 });
  });
});

describe('an eval', () => {
  const other = { ...env, LONGHAUL_HOME: join(dir, 'eval-home'), LONGHAUL_STORE: sqliteUrl(join(dir, 'eval-store')) };

  it('has of each sample the graded rollout, by cell', async () => {
    const store = await openStore(other.LONGHAUL_STORE);
    await store.putOnce(evalKeys.record('e'), {
      eval: 'e',
      evalDir: dir,
      startedAt: '2026-01-01T00:00:00.000Z',
      config: { eval: 'e', tasks: { ids: [] }, sampling: [{ name: 's' }], bootstrap: { confidence: 0.95 } },
      policies: [{ name: 'p' }, { name: 'q' }],
    } as unknown as EvalRecord);
    const task = 'swe-mini-test-0';
    const said = (id: number) => ({ reward: 1, finish: 'answer' as const, turns: [turn([1], [id], 'so')] });
    await putRollout(store, 'eval/e/p/s/r1-c0', task, 0, { failure: 'engine-lost' });
    await putRollout(store, 'eval/e/p/s/r2-c0', task, 0, said(2));
    await putRollout(store, 'eval/e/p/s/r1-c0', task, 1, said(3));
    await putRollout(store, 'eval/e/q/s/r1-c0', task, 0, said(4));
    await store.close();
    const { document, exitCode } = await call(['eval/e', '--format', 'skyrl', '--out', 'of-eval'], other);
    expect([exitCode, document.groups, document.rollouts, document.masked]).toEqual([0, 2, 3, {}]);
    const { response_ids: ids, traj_idx: names } = JSON.parse(
      readFileSync(join(document.out, 'part-00000.json'), 'utf8'),
    ) as SkyrlOutput;
    expect(ids.flat().toSorted((a, b) => a - b)).toEqual([2, 3, 4]);
    expect(names.at(-1)).toBe(`q/s/${task}-traj0`);
    expect(await call(['eval/e', '--format', 'skyrl', '--out', 'x', '--step', '1'], other)).toMatchObject({
      exitCode: 2,
      document: { error: { field: '--step' } },
    });
  });
});

describe('a run of which records are missing', () => {
  const other = { ...env, LONGHAUL_HOME: join(dir, 'other-home'), LONGHAUL_STORE: sqliteUrl(join(dir, 'other-store')) };
  beforeAll(async () => {
    const store = await openStore(other.LONGHAUL_STORE);
    await putRun(store, dir);
    const task = 'swe-mini-train-0';
    const rollouts = [
      await putRollout(store, `train/${RUN}/step-1`, task, 0, {
        reward: 1,
        masked: 'no-logprobs',
        turns: [turn([1], [2, 3], 'no numbers', { logprobs: [], untrainable: 'the server gives none' })],
      }),
    ];
    await putStep(store, 1, [{ task, rollouts }]);
    await store.close();
  });

  it('log-probabilities are null where nobody gave them, and tinker refuses by name', async () => {
    const { exitCode, document } = await call([RUN, '--format', 'skyrl', '--out', 'nulls'], other);
    expect([exitCode, document.rowsWithoutLogprobs]).toEqual([0, 1]);
    const output = JSON.parse(readFileSync(join(document.out, 'part-00000.json'), 'utf8')) as SkyrlOutput;
    expect(output).toMatchObject({ rollout_logprobs: [null], loss_masks: [[1, 1]] });
    expect(await call([RUN, '--format', 'tinker', '--out', 'none'], other)).toMatchObject({
      exitCode: 2,
      document: {
        error: { field: '--format', remedy: expect.stringContaining('train/r/step-1/swe-mini-train-0/0') as string },
      },
    });
    expect(readdirSync(dir)).not.toContain('none');
    expect(readdirSync(dir).filter((name) => name.includes('partial'))).toEqual([]);
  });

  it('a pruned run has its chats alone', async () => {
    const store = await openStore(other.LONGHAUL_STORE);
    await store.putOnce(keys.pruned(RUN), { at: '2026-01-02T00:00:00.000Z' });
    await store.close();
    expect(await call([RUN, '--format', 'verl', '--out', 'none'], other)).toMatchObject({
      exitCode: 2,
      document: { error: { field: 'RUN', remedy: expect.stringContaining('jsonl') as string } },
    });
    expect(await call([RUN, '--format', 'jsonl', '--out', 'chats'], other)).toMatchObject({ exitCode: 0 });
  });
});
