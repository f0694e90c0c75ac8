/** Hunts refusals of a name or a path that do not say what to write instead. */
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { runCommandLine } from '../../../cli/run.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { evalKeys } from '../../../reports/evaluation/eval-records.ts';
import { openStore, sqliteUrl } from '../../../store/open-store.ts';
import { someTasks } from '../../support/some-tasks.ts';

const dir = realpathSync(mkdtempSync(join(tmpdir(), 'longhaul-wrong-names-')));
const env = { ...process.env, LONGHAUL_HOME: join(dir, 'home'), LONGHAUL_STORE: sqliteUrl(join(dir, 'store')) };
const startedAt = '2026-01-01T00:00:00.000Z';

beforeAll(async () => {
  const store = await openStore(env.LONGHAUL_STORE);
  await store.putOnce(keys.run('r1'), {
    run: 'r1',
    runDir: dir,
    seed: 1,
    startedAt,
    tasks: someTasks,
    task: {},
    policy: {},
  });
  await store.putOnce(evalKeys.record('ev'), { eval: 'ev', evalDir: dir, startedAt, config: {}, policies: [] });
  const event = { attempt: 1, event: 'dispatched', at: startedAt } as const;
  await store.append([
    { ...event, run: 'eval/ev', rollout: 'eval/ev/p/s/r1-c0/swe-mini-test-3/0' },
    { ...event, run: 'rollout/swe-mini-test-3/ab', rollout: 'rollout/swe-mini-test-3/ab' },
  ]);
  await store.close();
});
afterAll(() => rmSync(dir, { recursive: true }));

async function refusal(...args: string[]) {
  let out = '';
  const { signal } = new AbortController();
  const around = { out: (text: string) => void (out += text), err: () => undefined, env, cwd: dir, signal };
  const exitCode = await runCommandLine([...args, '--json'], around);
  const { error } = JSON.parse(out) as { error?: { field: string; value: unknown; remedy: string } };
  return { exitCode, ...error };
}

it('a file whose name is no name of a run or an eval says how to give one', async () => {
  writeFileSync(join(dir, 'my run.yaml'), stringify({ policy: { base: '/p' }, task: { name: 'swe-mini' } }));
  writeFileSync(join(dir, 'my eval.yaml'), stringify({ policies: ['oracle'], tasks: { name: 'swe-mini' } }));
  expect(await refusal('train', join(dir, 'my run.yaml'), '--dry-run')).toMatchObject({
    exitCode: 2,
    field: 'run',
    value: 'my run',
    remedy: expect.stringMatching(/--run-id NAME.*run: NAME in the file/) as string,
  });
  expect(await refusal('eval', join(dir, 'my eval.yaml'), '--dry-run')).toMatchObject({
    field: 'eval',
    value: 'my eval',
    remedy: expect.stringContaining('--eval-id NAME') as string,
  });
  expect((await refusal('eval', join(dir, 'my eval.yaml'), '--dry-run', '--eval-id', 'mine')).field).toBeUndefined();
  expect(
    (await refusal('check', join(dir, 'my eval.yaml'), '--set', 'eval=mine', '--tasks', '1')).field,
  ).toBeUndefined();
});

it.each(['starter', 'r1@3', 'latest:r1', 'oracle'])('policy.base: %s names what it may be', async (base) => {
  const config = { policy: { base }, task: { name: 'swe-mini' } };
  writeFileSync(join(dir, 'run.yaml'), stringify(config));
  expect(await refusal('train', join(dir, 'run.yaml'), '--dry-run')).toMatchObject({
    field: 'policy.base',
    value: base,
    remedy: expect.stringMatching(/hub id such as .*runs\/RUN\/checkpoints\/step-N; the starter is /) as string,
  });
});

it('a data file that is missing is named with its option, and where its path starts', async () => {
  const options = { data: { train: 'train.jsonl', test: ['test.jsonl'] } };
  writeFileSync(join(dir, 'data.yaml'), stringify({ policies: ['oracle'], tasks: { name: 'gsm8k', options } }));
  for (const verb of [['eval', '--dry-run'], ['check']])
    expect(await refusal(verb[0] ?? '', join(dir, 'data.yaml'), ...verb.slice(1))).toMatchObject({
      exitCode: 2,
      field: 'tasks.options.data.train',
      value: 'train.jsonl',
      remedy: `give a file that can be read: ${join(dir, 'train.jsonl')}: there is no such file (relative paths start at ${dir}: the folder of the configuration)`,
    });
  writeFileSync(join(dir, 'run.yaml'), stringify({ policy: { base: '/p' }, task: { name: 'gsm8k', options } }));
  writeFileSync(join(dir, 'train.jsonl'), '{"question":"1+1?","answer":"#### 2"}\n');
  expect(await refusal('train', join(dir, 'run.yaml'), '--dry-run')).toMatchObject({
    field: 'task.options.data.test.0',
  });
});

it.each(['export', 'rescore', 'rollouts', 'times'])('%s says which name is meant, of runs and evals', async (verb) => {
  const more = verb === 'export' ? ['--format', 'jsonl', '--out', 'out'] : [];
  expect(await refusal(verb, 'ev', ...more)).toMatchObject({
    field: 'RUN',
    remedy: 'did you mean eval/ev? give one of r1, eval/ev',
  });
  expect(await refusal(verb, 'eval/r1', ...more)).toMatchObject({ remedy: expect.stringContaining('mean r1?') });
  expect(await refusal(verb, 'eval/ev/p/s/r1-c0/swe-mini-test-3/0', ...more)).toMatchObject({
    remedy: expect.stringMatching(/^give eval\/ev, .*--task swe-mini-test-3/) as string,
  });
  expect(await refusal(verb, 'rollout/swe-mini-test-3/ab', ...more)).toMatchObject({
    remedy: expect.stringContaining('npx longhaul trajectory rollout/swe-mini-test-3/ab') as string,
  });
});
