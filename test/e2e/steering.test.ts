/**
 * Hunts steering that works over scripted parts alone: the real stack with its sandboxes and engine, the example programs
 * as their users run them (against the built package), the verbs, and a cancelled run.
 * Not asserted: killed processes (training-run.test.ts), and the display of a terminal.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Client, Connection } from '@temporalio/client';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parse } from 'yaml';
import type { RunSettings } from '../../config/run-config.ts';
import type { RunSummary } from '../../reports/run-summary.ts';
import { Longhaul } from '../../client/longhaul.ts';
import { packageRoot } from '../../scripts/setup/paths.mjs';
import { accountFor } from '../../reports/accounting.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import type { RolloutEvent } from '../../store/store.ts';
import type { TrainStatus } from '../../protocol/train-status.ts';
import { documents, fences } from '../docs/markdown.ts';
import { longhaul, longhaulJson } from '../support/cli.ts';
import { installPackage } from '../support/package.ts';

const run = promisify(execFile);
const dir = mkdtempSync(join(tmpdir(), 'longhaul-steering-'));
const starter = join(packageRoot, 'examples', 'starter');
const quickstart = join(packageRoot, 'examples', 'quickstart.yaml');
let address = '';
let client: Client;

beforeAll(async () => {
  await installPackage(dir);
  for (const name of ['with-library.ts', 'with-temporal-client.ts'])
    copyFileSync(join(packageRoot, 'examples', 'programmatic', name), join(dir, name));
  address = (await longhaulJson<{ address: string }>(['up', '--detach'], dir)).address;
  client = new Client({ connection: await Connection.connect({ address }) });
});
afterAll(async () => {
  await client?.connection.close();
  await longhaul(['down'], dir);
  rmSync(dir, { recursive: true, force: true });
});

const summaryOf = (id: string) => longhaulJson<RunSummary>(['show', id], dir);
const accounted = ({ accounting: { trained, masked, dropped, evaluated } }: RunSummary) =>
  trained + masked + dropped + evaluated;
const sandboxes = () => readdirSync(join(dir, '.longhaul', 'sandboxes')).filter((name) => !name.startsWith('.'));

it.each(['with-library', 'with-temporal-client'])(
  '%s.ts starts, pauses, changes, resumes, follows and awaits a run',
  async (name) => {
    const env = { ...process.env, TEMPORAL_ADDRESS: address };
    const { stdout } = await run(process.execPath, [join(dir, `${name}.ts`), name, starter], {
      cwd: dir,
      env,
      timeout: 200_000,
    });
    expect(JSON.parse(stdout)).toEqual({ run: name, learningRate: 1e-4, steps: [1, 2], policyVersion: 2 });
    const summary = await summaryOf(name);
    expect(summary).toMatchObject({ status: 'completed', accounting: { lost: 0, duplicated: 0 } });
    const change = { step: 0, field: 'algorithm.learningRate', from: 2e-4, to: 1e-4 };
    expect(summary.changes).toMatchObject([change]);
    const runDir = join(dir, 'runs', name);
    expect(JSON.parse(readFileSync(join(runDir, 'changes.jsonl'), 'utf8'))).toMatchObject(change);
    expect(summary.steps.map(({ learningRate }) => learningRate)).toEqual([1e-4, 1e-4]);
  },
);

it('a Temporal client that names a folder elsewhere is refused by the workers of the stack', async () => {
  const args = [{ task: 'swe-mini-held-out-0', policy: { uri: 'file:///etc', version: 0 } }];
  const result: unknown = await client.workflow.execute('rollout', {
    taskQueue: 'orchestrator',
    workflowId: 'elsewhere',
    args,
  });
  expect(result).toMatchObject({
    status: 'failed',
    failure: 'bad-input',
    message: expect.stringMatching(/^policy.uri: "\/etc".*LONGHAUL_PLACES/) as string,
  });
});

it("the README's program does what it says, with a smaller run", async () => {
  const [snippet] = documents()
    .filter(({ file }) => file === 'README.md')
    .flatMap((document) => fences(document, 'ts'));
  const fewTasks = "tasks: { name: 'swe-mini', count: 2 }";
  const agent = 'agent: { maxTurns: 4, maxContextTokens: 700 }';
  const small =
    'steps: 1, batch: { tasks: 2, samples: 2 }, agent: { maxTurns: 4, maxContextTokens: 700 }, evaluation: { tasks: 2, greedy: false },';
  const program = (snippet?.text ?? '')
    .replaceAll('/models/starter', starter)
    .replace('steps: 10,', small)
    .replace("tasks: { name: 'swe-mini' }", `${fewTasks}, ${agent}`);
  for (const part of [small, fewTasks]) expect(program).toContain(part);
  writeFileSync(join(dir, 'readme.ts'), `${program}\nawait longhaul.close();\n`);
  const env = { ...process.env, TEMPORAL_ADDRESS: address };
  const { stdout } = await run(process.execPath, [join(dir, 'readme.ts')], { cwd: dir, env, timeout: 200_000 });
  expect(stdout).toMatch(/^1 \d/m);
  expect(stdout).toContain("run: 'my-run'");
  expect(stdout).toMatch(/^latest-my-run [^]*mean/m);
});

it('rollout shows every turn and the verdict; interrupted, it goes on, and can be attached to', async () => {
  const shown = await longhaul(['rollout', '--task', 'swe-mini-held-out-3', '--policy', 'starter', '--seed', '2'], dir);
  expect(shown.code, shown.stderr).toBe(0);
  for (const part of [
    '── user',
    '── turn 1 ·',
    '→ ',
    '── turn 1 · observation',
    '── verdict',
    /reward [01] \((not )?passed\)/,
  ])
    expect(shown.stdout).toMatch(part);

  const program = join(packageRoot, 'bin', 'longhaul.mjs');
  const env = { ...process.env, LONGHAUL_HOME: join(dir, '.longhaul') };
  const child: ChildProcess = spawn(
    process.execPath,
    [program, 'rollout', '--task', 'swe-mini-held-out-4', '--policy', 'starter'],
    { cwd: dir, env },
  );
  let out = '';
  let err = '';
  child.stdout?.on('data', (text: Buffer) => {
    out += text.toString();
  });
  child.stderr?.on('data', (text: Buffer) => {
    err += text.toString();
  });
  const code = new Promise<number | null>((resolve) => child.once('exit', resolve));
  await expect.poll(() => out, { interval: 20 }).toContain('rollout rollout/swe-mini-held-out-4/');
  child.kill('SIGINT');
  expect(await code).toBe(130);
  const id = /attach with: npx longhaul rollout --attach (\S+)/.exec(err)?.[1] ?? '';
  const { result } = await longhaulJson<{ result: { status: string } }>(['rollout', '--attach', id], dir);
  expect(result.status).toBe('graded');
});

it('rollout refuses bad input by its exit code, before anything is started', async () => {
  expect((await longhaul(['rollout', '--task', 'nope', '--policy', 'starter'], dir)).code).toBe(2);
  expect((await longhaul(['rollout', '--task', 'swe-mini-held-out-3', '--policy', '/nowhere'], dir)).code).toBe(2);
  expect((await longhaul(['rollout', '--attach', 'nobody'], dir)).code).toBe(2);
});

it('a run that is cancelled with rollouts in every stage leaves no sandbox, lease or process, and its accounting is whole', async () => {
  const sets = [
    'steps=2',
    'batch.tasks=3',
    'batch.samples=4',
    'batch.dynamicSampling.maxSampleBatches=1',
    'evaluation.tasks=12',
    'evaluation.greedy=false',
    'dispatcher.type=bounded',
    'dispatcher.maxParallelAgents=8',
  ].flatMap((set) => ['--set', set]);
  const started = await longhaul(['train', quickstart, '--run-id', 'cancelled', ...sets, '--detach'], dir);
  expect(started.code, started.stderr).toBe(0);
  const stages = new Set<string>();
  for (let i = 0; i < 600 && stages.size < 3; i += 1) {
    stages.clear();
    for await (const { typedSearchAttributes } of client.workflow.list({
      query: "LonghaulRun = 'cancelled' AND WorkflowType = 'rollout' AND ExecutionStatus = 'Running'",
    })) {
      for (const { key, value } of typedSearchAttributes.getAll())
        if (key.name === 'LonghaulStage') stages.add(String(value));
    }
    await sleep(50);
  }
  expect([...stages].sort()).toEqual(expect.arrayContaining(['agent-run', 'init', 'reward']));
  // At once: a program of its own would find few of them left.
  await client.workflow.getHandle('train/cancelled').cancel();
  await expect(client.workflow.getHandle('train/cancelled').result()).rejects.toThrow();

  // A grader's sandbox ends with its activity, which hears of the cancellation by its next heartbeat and ends at once.
  await expect.poll(sandboxes, { interval: 500 }).toEqual([]);
  const store = openSqliteStore(join(dir, '.longhaul', 'store'));
  try {
    for (const kind of ['sandbox', 'grader-sandbox'])
      await expect.poll(() => store.leases(kind), { interval: 500 }).toEqual([]);
  } finally {
    await store.close();
  }
  const { stdout } = await run('ps', ['-eo', 'args']);
  expect(stdout.split('\n').filter((line) => line.includes(join(dir, '.longhaul', 'sandboxes')))).toEqual([]);
  const summary = await summaryOf('cancelled');
  expect(summary.status).toBe('cancelled');
  expect(summary.accounting).toMatchObject({ lost: 0, duplicated: 0 });
  expect(accounted(summary)).toBe(summary.accounting.dispatched);
  expect(summary.accounting.dispatched).toBeGreaterThan(0);
  const open = client.workflow.list({ query: "LonghaulRun = 'cancelled' AND ExecutionStatus = 'Running'" });
  for await (const { workflowId } of open) throw new Error(`${workflowId} still runs`);
});

it('that run, begun again by a program, goes on with what it had begun, and its accounting is whole', async () => {
  type Told = { accounting: RunSummary['accounting']; events: RolloutEvent[] };
  const told = () => longhaulJson<Told>(['rollouts', 'cancelled'], dir);
  const before = await told();
  expect(before.accounting.masked).toBeGreaterThan(0);
  expect(accountFor(before.events, true)).toEqual(before.accounting);
  const runs = await Longhaul.connect({ address });
  const again = await runs.train(
    parse(readFileSync(join(dir, 'runs', 'cancelled', 'config.yaml'), 'utf8')) as RunSettings,
    { again: true },
  );
  await expect.poll(async () => (await summaryOf('cancelled')).status, { interval: 200 }).toBe('running');
  await again.result();
  await runs.close();
  const summary = await summaryOf('cancelled');
  expect(summary).toMatchObject({ status: 'completed', accounting: { masked: 0, lost: 0, duplicated: 0 } });
  expect(accounted(summary)).toBe(summary.accounting.dispatched);
  const { events } = await told();
  expect(accountFor(events, true)).toEqual(summary.accounting);
}, 400_000);

it('a run is paused, changed and resumed by verbs', async () => {
  const sets = ['steps=1', 'batch.tasks=2', 'batch.samples=2', 'evaluation.tasks=3', 'evaluation.greedy=false'].flatMap(
    (set) => ['--set', set],
  );
  const args = ['train', quickstart, '--run-id', 'steered', ...sets];
  expect((await longhaul([...args, '--detach'], dir)).code).toBe(0);
  expect((await longhaul(['pause', 'steered'], dir)).code).toBe(0);
  expect((await longhaul(['pause', 'steered', '--at', 'never'], dir)).code).toBe(2);
  await expect
    .poll(async () => (await client.workflow.getHandle('train/steered').query<TrainStatus>('status')).phase)
    .toBe('paused');
  expect((await longhaul(['set', 'steered', 'algorithm.learningRate=0.00005', 'maxParallelAgents=3'], dir)).code).toBe(
    0,
  );
  expect((await longhaul(['set', 'steered', 'seed=5'], dir)).code).toBe(2);
  expect((await longhaul(['resume', 'steered'], dir)).code).toBe(0);
  const summary = await longhaulJson<RunSummary>(args, dir);
  expect(summary.status).toBe('completed');
  expect(summary.changes.map(({ field, to }) => [field, to])).toEqual([
    ['algorithm.learningRate', 0.00005],
    ['dispatcher.maxParallelAgents', 3],
  ]);
});
