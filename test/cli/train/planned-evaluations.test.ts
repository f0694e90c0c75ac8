/** Hunts a plan that promises evaluations on more held-out tasks than there are. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, expect, it, vi } from 'vitest';
import { packageRoot } from '#setup/paths.mjs';
import { knownRun } from '../../../cli/train/ended-run.ts';
import { planLines } from '../../../cli/train/plan.ts';
import { resolveRunConfig } from '../../../config/run-config.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-planned-'));
const rows = Array.from({ length: 12 }, (_, i) =>
  JSON.stringify({ question: `${i} + ${i}?`, answer: `#### ${2 * i}` }),
);
writeFileSync(join(dir, 'sums.jsonl'), rows.join('\n'));
const base = join(packageRoot, 'examples', 'starter');
const task = { name: 'gsm8k', options: { data: { train: 'sums.jsonl', test: 'sums.jsonl' } } };
const screen = { line: () => undefined, bar: () => undefined };
const evaluations = (lines: readonly string[]) => lines.find((line) => line.includes('held-out'));
afterEach(() => vi.unstubAllEnvs());
afterAll(() => rmSync(dir, { recursive: true }));

it('a new run is planned with the tasks that its files have', async () => {
  vi.stubEnv('LONGHAUL_HOME', join(dir, 'home'));
  const config = resolveRunConfig({ run: 'sums', policy: { base }, task }, dir);
  const { tasks } = await knownRun(config, screen);
  expect(evaluations(planLines(config, tasks))).toBe('2 evaluations of 24 rollouts on 12 held-out tasks');
});

it('if they are not known, the plan says that the number is a limit', () => {
  const config = resolveRunConfig({ run: 'sums', policy: { base }, task }, dir);
  expect(evaluations(planLines(config))).toBe('2 evaluations of at most 400 rollouts on at most 200 held-out tasks');
  const asked = resolveRunConfig({ run: 'sums', policy: { base }, task, evaluation: { tasks: 5 } }, dir);
  expect(evaluations(planLines(asked))).toBe('2 evaluations of 10 rollouts on 5 held-out tasks');
});
