/**
 * Two evals with other versions of one module at the same time on one stack that was started before either was written.
 * Why: below it everything runs in one process, which knows what it has loaded. Sandboxes are bubblewrap's.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { packageRoot } from '../../scripts/setup/paths.mjs';
import type { EvalResults } from '../../reports/evaluation/eval-results.ts';
import { longhaul, longhaulJson } from '../support/cli.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-modules-'));
const module = join(dir, 'count-errors.ts');
const example = readFileSync(join(packageRoot, 'examples', 'own-task', 'count-errors.ts'), 'utf8');

afterAll(async () => {
  await longhaul(['down'], dir);
  rmSync(dir, { recursive: true, force: true });
});

function writeEval(name: string): void {
  const lines = ['modules: [count-errors.ts]', 'tasks: { name: count-errors, count: 2 }', 'policies: [oracle, empty]'];
  writeFileSync(join(dir, `${name}.yaml`), `${lines.join('\n')}\n`);
}

const rewards = ({ cells }: EvalResults) =>
  Object.fromEntries(cells.map(({ cell, meanReward }) => [cell, meanReward?.mean]));

it('each eval has the module as it was when it started, and a change needs no restart', async () => {
  expect((await longhaul(['up', '--detach'], dir)).code).toBe(0);
  for (const name of ['first', 'second']) writeEval(name);
  writeFileSync(module, example);
  const first = longhaulJson<EvalResults>(['eval', 'first.yaml'], dir);
  // The first eval is recorded with its module before the file changes.
  await expect.poll(async () => (await longhaul(['show', 'eval/first', '--json'], dir)).code).toBe(0);
  writeFileSync(module, example.replace('reward: passed ? 1 : 0', 'reward: passed ? 0.25 : 0.125'));
  const second = longhaulJson<EvalResults>(['eval', 'second.yaml'], dir);
  const cells = (oracle: number, empty: number) => ({ 'oracle/t1': oracle, 'empty/t1': empty });
  expect(rewards(await first)).toEqual(cells(1, 0));
  expect(rewards(await second)).toEqual(cells(0.25, 0.125));
});
