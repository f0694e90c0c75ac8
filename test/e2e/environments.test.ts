/**
 * The examples of environments on one stack, as a user runs them: graders by gold and empty answers, two steps of
 * training each, two runs with other modules side by side, and a mixture. Why: below it nothing trains on tasks of
 * modules through workflows, workers and store at once. Sandboxes are bubblewrap's.
 */
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { packageRoot } from '../../scripts/setup/paths.mjs';
import type { EvalResults } from '../../reports/evaluation/eval-results.ts';
import type { RunSummary } from '../../reports/run-summary.ts';
import { longhaul, longhaulJson } from '../support/cli.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-environments-'));
const config = (name: string) => join('examples', 'environments', `${name}.yaml`);

beforeAll(async () => {
  for (const part of ['environments', 'starter'])
    cpSync(join(packageRoot, 'examples', part), join(dir, 'examples', part), { recursive: true });
  const { code, stderr } = await longhaul(['up', '--detach'], dir);
  expect(code, stderr).toBe(0);
}, 120_000);
afterAll(async () => {
  await longhaul(['down'], dir);
  rmSync(dir, { recursive: true, force: true });
});

const train = (name: string) => longhaulJson<RunSummary>(['train', config(name)], dir);

function expectTrained({ status, steps, accounting }: RunSummary): void {
  expect({ status, steps: steps.length, masked: steps.map(({ masked }) => masked) }).toEqual({
    status: 'completed',
    steps: 2,
    masked: [{}, {}],
  });
  expect(accounting).toMatchObject({ masked: 0, lost: 0, duplicated: 0 });
}

it.concurrent.each(['word-problems', 'guess-the-number', 'fill-a-basket', 'two-sandboxes', 'keeps-running'])(
  '%s: a known solution scores 1, an empty answer 0',
  async (name) => {
    const { cells } = await longhaulJson<EvalResults>(['eval', config(`${name}-eval`)], dir);
    expect(cells.map(({ cell, meanReward }) => [cell, meanReward?.mean])).toEqual([
      ['oracle/t1', 1],
      ['empty/t1', 0],
    ]);
  },
);

it('keeps-running: what was graded in place is not graded again, but played again, as the refusal says', async () => {
  const refused = await longhaul(['rescore', 'eval/keeps-running-eval'], dir);
  expect(refused.code).toBe(2);
  const [, policy = ''] = /policies: \[(replay:\S+)\]/.exec(refused.stderr) ?? [];
  expect(policy).toBe('replay:eval/keeps-running-eval');
  const sets = [`policies=["${policy}"]`, 'samples=2'].flatMap((set) => ['--set', set]);
  const again = ['eval', config('keeps-running-eval'), '--eval-id', 'again', ...sets];
  const { cells } = await longhaulJson<EvalResults>(again, dir);
  // Of each task the gold answer and the empty one.
  expect(cells.map(({ rollouts, graded, meanReward }) => [rollouts, graded, meanReward?.mean])).toEqual([[8, 8, 0.5]]);
});

it.each([
  ['word-problems', 'guess-the-number'],
  ['fill-a-basket', 'two-sandboxes'],
  ['go-shopping', 'write-in-turns'],
])('%s and %s train side by side, each with its own modules', async (one, other) => {
  const summaries = await Promise.all([train(one), train(other)]);
  for (const summary of summaries) expectTrained(summary);
});

it('keeps-running is graded in the sandboxes of its agents', async () => {
  expectTrained(await train('keeps-running'));
});

it('call-the-policy: a program in the sandbox calls the policy, and its calls are trained on', async () => {
  const summary = await train('call-the-policy');
  expectTrained(summary);
  expect(summary.steps.every(({ sampledTokens }) => sampledTokens > 0)).toBe(true);
});

it('a mixture has the metrics of each of its sources', async () => {
  expectTrained(await train('mixture'));
  const lines = readFileSync(join(dir, 'runs', 'mixture', 'metrics.jsonl'), 'utf8')
    .trim()
    .split('\n');
  const metrics = lines.map((line) => (JSON.parse(line) as { metrics: Record<string, number> }).metrics);
  expect(metrics).toHaveLength(2);
  for (const ofStep of metrics)
    for (const source of ['easy', 'hard']) expect(ofStep[`source/${source}/avg_raw_reward`]).toBeGreaterThanOrEqual(0);
});
