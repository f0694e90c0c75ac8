/** Hunts an example of `rlm` that cannot be loaded, or whose grader gives an empty answer a point. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { runCommandLine } from '../../../cli/run.ts';

it('examples/tasks/rlm.yaml: known solutions score 1 and empty answers 0', { timeout: 300_000 }, async () => {
  let out = '';
  const code = await runCommandLine(['check', 'examples/tasks/rlm.yaml', '--oracle', '--json'], {
    out: (said) => void (out += said),
    err: () => undefined,
    env: process.env,
    cwd: join(import.meta.dirname, '../../..'),
    signal: new AbortController().signal,
  });
  const { sources, graders } = JSON.parse(out) as Record<string, unknown>;
  expect(sources).toMatchObject([{ bad: 0 }]);
  const policies = ['oracle', 'empty'].map((policy) => ({ policy, rollouts: 2, right: 2 }));
  expect(graders).toMatchObject({ withoutOracle: 0, policies });
  expect(code).toBe(0);
});
