/**
 * `longhaul bench dispatch` on a small case for this test: real workflows on a real server. Not asserted: makespans,
 * which depend on the machine (docs/results.md has them).
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readCases } from '../../../benchmarks/dispatch/cases.ts';
import { measure, peak } from '../../../benchmarks/dispatch/measure.ts';
import { longhaul } from '../../support/cli.ts';

let dir: string;
const tiny = {
  name: 'tiny',
  num_instances: 5,
  num_trajectories: 2,
  max_parallel_agents: 2,
  max_eval_parallel_agents: 1,
  stage_times: Array.from({ length: 5 }, () => [
    [1, 2, 1],
    [2, 1, 1],
  ]),
};
const file = (name: string, content: unknown) => {
  const path = join(dir, name);
  writeFileSync(path, JSON.stringify(content));
  return path;
};

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-dispatch-'));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

it('measures every order on the cases of a file', async () => {
  const done = await longhaul(
    ['bench', 'dispatch', '--json', '--cases', file('cases.json', { cases: [tiny] }), '--scale', '0.05'],
    dir,
  );
  expect(done.code, done.stderr).toBe(0);
  const { mixes } = JSON.parse(done.stdout) as { mixes: Array<Record<string, unknown>> };
  expect(mixes).toHaveLength(1);
  const number = expect.any(Number) as number;
  expect(mixes[0]).toMatchObject({
    name: 'tiny',
    lowerBound: 13,
    reference: number,
    speedup: number,
    liveSandboxesCap: 6,
    makespan: { batch: number, bounded: number, pipeline: number },
    runUtilisation: { batch: number, bounded: number, pipeline: number, reference: number },
  });
  const peaks = mixes[0]?.['liveSandboxesPeak'] as Record<string, number>;
  expect(peaks['pipeline']).toBeLessThanOrEqual(6);
  expect(peaks['bounded']).toBeLessThanOrEqual(2);
});

it.each([
  ['--scale', '0'],
  ['--case', 'no-such-case'],
  ['--cases', '/no/such/file.json'],
])('refuses %s %s', async (option, value) => {
  const refused = await longhaul(['bench', 'dispatch', option, value], dir);
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain(option);
});

it('refuses a case whose times are not instances × trajectories', () => {
  expect(() => readCases(file('uneven.json', { cases: [{ ...tiny, num_instances: 4 }] }))).toThrow(
    /tiny has 10 stage times/,
  );
  expect(() => readCases(file('untimed.json', { cases: [{ ...tiny, stage_times: [[[1, 2]]] }] }))).toThrow(
    /cases\.0\.stage_times/,
  );
});

it('counts what holds one moment, and what places were used for', () => {
  expect(
    peak([
      { start: 0, end: 2 },
      { start: 1, end: 3 },
      { start: 2, end: 4 },
    ]),
  ).toBe(2);
  expect(peak([])).toBe(0);
  const stages = [
    ['init', 0, 1],
    ['agent-run', 2, 4],
    ['reward', 4, 5],
  ] as const;
  const intervals = [0, 1].flatMap((rollout) =>
    stages.map(([stage, start, end]) => ({ rollout, stage, start: start + rollout, end: end + rollout })),
  );
  expect(measure(intervals, 2, 8)).toEqual({ makespan: 8, runUtilisation: 0.25, liveSandboxesPeak: 2 });
});
