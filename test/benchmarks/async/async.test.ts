/**
 * `longhaul bench async`: its virtual clock, and a tiny mix through the real workflows. Not asserted: times on Temporal,
 * which depend on the machine (docs/results.md has them).
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type AsyncMix, configOf, durationOf, MIXES } from '../../../benchmarks/async/mix.ts';
import { simulateRun } from '../../../benchmarks/async/simulate.ts';
import { longhaul } from '../../support/cli.ts';

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-async-'));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const longTailed = MIXES.find(({ name }) => name === 'long-tailed')!;

describe('the virtual clock', () => {
  const even: AsyncMix = { ...longTailed, name: 'even', sigma: 0, median: 10, update: 5, steps: 4 };

  it('takes rollouts and updates in turns in sync, and together one step off', () => {
    expect(simulateRun(even, configOf(even, 'sync', 0)).makespan).toBe(4 * 15);
    expect(simulateRun(even, configOf(even, 'one-step-off', 0)).makespan).toBe(4 * 10 + 5);
    expect(simulateRun(even, configOf(even, 'sync', 0)).staleness.max).toBe(0);
    expect(simulateRun(even, configOf(even, 'one-step-off', 0)).staleness.max).toBe(1);
  });

  it('has async at twice the pace of sync on long tails, within the bound', () => {
    const { makespan } = simulateRun(longTailed, configOf(longTailed, 'sync', 0));
    const overlapping = simulateRun(longTailed, configOf(longTailed, 'async', 4));
    expect(makespan / overlapping.makespan).toBeGreaterThan(2);
    expect(overlapping.staleness.max).toBeLessThanOrEqual(4);
  });

  it('gives a rollout the same time in every mode', () => {
    expect(durationOf(longTailed, 't-train-1', 2)).toBe(durationOf(longTailed, 't-train-1', 2));
    expect(durationOf(longTailed, 't-train-1', 2)).not.toBe(durationOf(longTailed, 't-train-1', 3));
  });
});

it('prints the clock as JSON, and refuses what it cannot use', async () => {
  const done = await longhaul(['bench', 'async', '--json', '--mix', 'light-tailed'], dir);
  expect(done.code, done.stderr).toBe(0);
  const { mixes } = JSON.parse(done.stdout) as { mixes: Array<{ virtualClock: { speedup: number } }> };
  expect(mixes).toHaveLength(1);
  expect(mixes[0]?.virtualClock.speedup).toBeGreaterThan(1);
  for (const [option, value] of [
    ['--mix', 'none'],
    ['--scale', '-1'],
    ['--max-staleness-steps', 'x'],
  ] as const) {
    const refused = await longhaul(['bench', 'async', option, value], dir);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain(option);
  }
});
