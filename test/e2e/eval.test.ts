/**
 * The starter on four held-out tasks through the real stack and engine, by the verb. Why: everything below it is tested
 * with scripted rollouts. Asserted: numbers that belong together, the files, and that a second call runs nothing.
 * Not asserted: how good the starter is (docs/results.md).
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it } from 'vitest';
import type { EvalResults } from '../../reports/evaluation/eval-results.ts';
import type { MeanTimes } from '../../cli/rollout/mean-times.ts';
import { longhaul, longhaulJson } from '../support/cli.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-eval-'));
const config = fileURLToPath(new URL('../../examples/eval.yaml', import.meta.url));
const args = ['eval', config, '--set', 'tasks.count=4'];

afterAll(async () => {
  await longhaul(['down'], dir);
  rmSync(dir, { recursive: true, force: true });
});

it('evaluates the starter, and shows it when it is asked again', async () => {
  const results = await longhaulJson<EvalResults>(args, dir);
  expect(results).toMatchObject({
    eval: 'starter',
    status: 'completed',
    rounds: 1,
    accounting: { dispatched: 20, evaluated: 20, masked: 0, lost: 0, duplicated: 0 },
  });
  const [sampled, greedy] = results.cells;
  expect([sampled, greedy]).toMatchObject([
    { cell: 'starter/sampled', rollouts: 16, graded: 16 },
    { cell: 'starter/greedy', rollouts: 4, graded: 4 },
  ]);
  const at = (k: string) => sampled?.passAt[k]?.mean ?? -1;
  expect(at('1')).toBeGreaterThanOrEqual(0);
  expect(at('2')).toBeGreaterThanOrEqual(at('1'));
  expect(at('4')).toBeGreaterThanOrEqual(at('2'));
  const folder = join(dir, 'evals', 'starter');
  expect(JSON.parse(readFileSync(join(folder, 'results.json'), 'utf8'))).toEqual(results);
  const rows = readFileSync(join(folder, 'rollouts.jsonl'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { sampling: string; passed: boolean });
  expect(rows.filter((row) => row.sampling === 'sampled' && row.passed).length / 16).toBeCloseTo(at('1'), 12);
  expect(await longhaulJson(args, dir)).toEqual(results);
  expect(await longhaulJson(['show', 'eval/starter'], dir)).toEqual(results);
  const { accounting, rollouts } = await longhaulJson<{ accounting: unknown; rollouts: unknown[] }>(
    ['rollouts', 'eval/starter'],
    dir,
  );
  expect([accounting, rollouts.length]).toEqual([results.accounting, 20]);
  const times = await longhaulJson<MeanTimes>(['times', 'eval/starter'], dir);
  expect(times).toMatchObject({ ended: 20, rollouts: 20 });
  const counts = new Map(times.activities.map(({ name, count }) => [name, count]));
  expect([counts.get('prepare'), counts.get('computeReward')]).toEqual([1, 1]);
  const parts = times.activities.reduce(
    (sum, { seconds, waitedSeconds }) => sum + seconds + waitedSeconds,
    times.workflowTasks.seconds + times.stoodSeconds,
  );
  expect(parts).toBeCloseTo(times.wallSeconds, 6);
});
