/**
 * A short training run through the real stack, whose worker processes are each killed with SIGKILL once while it runs.
 * Why: a run that cannot lose a worker is what this project is for. Asserted: the run completes, nothing is lost or
 * done twice by the append-only table as users get it, and its files are what the documentation says. Not asserted:
 * kills of the server or of sandboxes, and that the weights equal those of an undisturbed run.
 */
import { pathOf } from '../../protocol/policy-uri.ts';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { RunSummary } from '../../reports/run-summary.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import { loadWeights, weightsDigest } from '../../trainer/model/weights.ts';
import { listProcesses } from '../../stack/processes/list-processes.ts';
import type { StepRecord } from '../../protocol/step-record.ts';
import { askedHere, longhaul, longhaulJson } from '../support/cli.ts';

interface Event {
  readonly rollout: string;
  readonly attempt: number;
  readonly event: string;
  readonly at: string;
}

const dir = mkdtempSync(join(tmpdir(), 'longhaul-e2e-'));
const config = fileURLToPath(new URL('../../examples/quickstart.yaml', import.meta.url));
const small = [
  'steps=2',
  'batch.tasks=3',
  'batch.samples=4',
  'evaluation.tasks=4',
  'checkpoint.every=1',
  'algorithm.epochs=1',
];
const train = ['train', config, '--run-id', 'killed', ...small.flatMap((set) => ['--set', set])];
const ROLES = ['orchestrator', 'init', 'agent-run', 'reward', 'gpu'];
const ENDS = ['trained', 'masked', 'dropped', 'evaluated'];

/** The process that is ready by that name, if any is: what `longhaul ps` lists. */
const ready = (name: string) =>
  listProcesses(join(dir, '.longhaul')).processes.find((one) => one.name === name && one.state === 'ready')?.pid ?? 0;

const SOON = { timeout: 120_000, interval: 20 };
let summary: RunSummary;
const killed: string[] = [];

beforeAll(async () => {
  const started = await longhaul([...train, '--detach'], dir);
  expect(started.code, started.stderr).toBe(0);
  expect(started.stdout).toMatch(/^swe-mini \(4000 tasks\): 2 steps /m);
  const store = openSqliteStore(join(dir, '.longhaul', 'store'));
  let seen = 0;
  for (const role of ROLES) {
    // Each falls on a run that has moved on since the last.
    await vi.waitUntil(async () => (await store.events('killed')).length > seen, SOON);
    const pid = ready(role);
    expect(pid, role).toBeGreaterThan(0);
    process.kill(pid, 'SIGKILL');
    seen = (await store.events('killed')).length;
    killed.push(role);
    await vi.waitUntil(() => ![0, pid].includes(ready(role)), SOON);
  }
  await store.close();
  expect((await askedHere<RunSummary>(['show', 'killed'], dir)).status).toBe('running');
  summary = await longhaulJson<RunSummary>(train, dir);
}, 400_000);

afterAll(async () => {
  await longhaul(['down'], dir);
  rmSync(dir, { recursive: true, force: true });
});

describe('a run whose workers were all killed', () => {
  it('completes', () => {
    expect(killed).toEqual(ROLES);
    expect(summary.status).toBe('completed');
    expect(summary.steps.map((step) => step.step)).toEqual([1, 2]);
    expect(summary.evaluation.after?.rollouts).toBe(4);
  });

  it('has lost nothing and done nothing twice, by its append-only table', async () => {
    const { events } = await longhaulJson<{ events: Event[] }>(['rollouts', 'killed'], dir);
    const dispatched = new Set(events.filter((e) => e.event === 'dispatched').map((e) => e.rollout));
    const ends = events.filter((e) => ENDS.includes(e.event));
    // Dynamic sampling draws three to six groups of four a step.
    const drawn = [...dispatched].filter((rollout) => rollout.includes('/step-'));
    expect(dispatched.size - drawn.length).toBe(4 * 4);
    expect([drawn.length % 4, drawn.length >= 2 * 12, drawn.length <= 4 * 12]).toEqual([0, true, true]);
    expect(new Set(ends.map((e) => e.rollout))).toEqual(dispatched);
    expect(ends.length).toBe(dispatched.size);
    expect(summary.accounting).toMatchObject({ dispatched: dispatched.size, lost: 0, duplicated: 0 });
    const { trained, masked, dropped, evaluated } = summary.accounting;
    expect(trained + masked + dropped + evaluated).toBe(dispatched.size);
    expect(masked).toBe(0);
  });

  it('leaves the files of a run', async () => {
    const run = join(dir, 'runs', 'killed');
    for (const name of [
      'config.yaml',
      'summary.json',
      'metrics.jsonl',
      'learning-curve.svg',
      'trajectories',
      'checkpoints',
    ]) {
      expect(existsSync(join(run, name)), name).toBe(true);
    }
    expect(JSON.parse(readFileSync(join(run, 'summary.json'), 'utf8'))).toEqual(summary);
    const lines = readFileSync(join(run, 'metrics.jsonl'), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as StepRecord & { metrics: Record<string, number> });
    expect(lines.map(({ step }) => step)).toEqual([1, 2]);
    // Each turn's cost comes from the worker that sampled it.
    for (const { metrics } of lines) {
      for (const name of [
        'sampler/calls',
        'generate/trajectory_time_llm_mean',
        'generate/trajectory_time_completion_mean',
        'generate/group_completion_time_max',
      ])
        expect(metrics[name], name).toBeGreaterThan(0);
      expect(metrics['generate/avg_num_tokens']).toBeGreaterThan(metrics['generate/avg_assistant_tokens']!);
      expect(metrics).toHaveProperty(['reward/num_zero_variance_filtered']);
    }
    expect(lines.at(-1)?.metrics).toHaveProperty(['eval/all/avg_score']);
    expect(summary.checkpoints.map((c) => c.step)).toEqual([1, 2]);
    for (const { uri, sha256 } of summary.checkpoints) {
      expect(weightsDigest(await loadWeights(pathOf(uri)))).toBe(sha256);
      expect(readdirSync(pathOf(uri))).toEqual(
        expect.arrayContaining(['config.json', 'tokenizer.json', 'longhaul.json']),
      );
    }
  });

  it('trains on what was sampled: the log-probabilities agree', () => {
    const trained = summary.steps.filter((step) => step.trainedTokens > 0);
    for (const { logprobDrift } of trained) expect(logprobDrift.maxAbs).toBeLessThan(1e-4);
  });

  it('is attached to, not run again, when it is asked for again', async () => {
    const again = await longhaulJson<RunSummary>(train, dir);
    expect(again).toEqual(summary);
  });

  it('answers as before once it was pruned', async () => {
    const { events } = await askedHere<{ events: Event[] }>(['rollouts', 'killed'], dir);
    const rollouts = events
      .filter(({ event }) => event === 'trained')
      .slice(0, 3)
      .map(({ rollout }) => rollout);
    const asked = [
      ['runs'],
      ['show', 'killed'],
      ['rollouts', 'killed'],
      ['times', 'killed', '--sample', '5'],
      ...rollouts.map((rollout) => ['trajectory', rollout]),
    ];
    const answers = async () => {
      const found: unknown[] = [];
      for (const args of asked) found.push(await askedHere(args, dir));
      return found;
    };
    const before = await answers();
    const { pruned, bytes } = await longhaulJson<{
      pruned: Array<{ rollouts: number; results: number }>;
      bytes: { before: number; after: number };
    }>(['prune', 'killed'], dir);
    expect(pruned).toMatchObject([{ name: 'killed', rollouts: summary.accounting.dispatched }]);
    expect(pruned[0]?.results).toBeGreaterThan(3 * summary.accounting.dispatched);
    expect(bytes.after).toBeLessThan(bytes.before);
    expect(await answers()).toEqual(before);
    expect(await longhaulJson<RunSummary>(train, dir)).toEqual(summary);
  });

  it('leaves no sandbox behind, once those of the killed grader have outlived their minute and were swept', async () => {
    const left = () => readdirSync(join(dir, '.longhaul', 'sandboxes')).filter((name) => !name.startsWith('.'));
    await expect.poll(left, { timeout: 150_000, interval: 1000 }).toEqual([]);
  });
});
