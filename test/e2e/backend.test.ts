/**
 * Two steps of training and an eval on one stack, over the backend of the example in examples/backends. Why: below it
 * no workflow passes the URIs on, and no worker loads the module by its digest.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { packageRoot } from '../../scripts/setup/paths.mjs';
import type { EvalResults } from '../../reports/evaluation/eval-results.ts';
import type { RunSummary } from '../../reports/run-summary.ts';
import { longhaul, longhaulJson } from '../support/cli.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-backend-'));
const base = `bigram:${join(dir, 'states')}?tokenizer=${join(packageRoot, 'examples', 'starter')}`;

afterAll(async () => {
  await longhaul(['down'], dir);
  rmSync(dir, { recursive: true, force: true });
});

/** JSON is YAML. */
function write(name: string, settings: object): string {
  const examples = join(packageRoot, 'examples');
  const modules = [join(examples, 'backends', 'bigram.ts'), join(examples, 'environments', 'guess-the-number.ts')];
  writeFileSync(join(dir, name), JSON.stringify({ modules, ...settings }));
  return name;
}

it('trains from saved state to saved state, and an eval samples a state by its URI', async () => {
  const task = { name: 'guess-the-number', options: { highest: 9, guesses: 2 } };
  const run = write('bigram.yaml', {
    steps: 2,
    policy: { backend: 'bigram', base },
    task,
    batch: { tasks: 4, samples: 4 },
    sampling: { maxTokens: 8 },
    evaluation: { tasks: 2, greedy: false },
    checkpoint: { every: 1 },
  });
  const refused = await longhaul(['train', run, '--set', 'policy.lora={}'], dir);
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('backend bigram does not support it')]);
  const summary = await longhaulJson<RunSummary>(['train', run], dir);
  expect(summary).toMatchObject({ status: 'completed', policy: { base }, accounting: { lost: 0, duplicated: 0 } });
  expect(summary.checkpoints.map(({ step }) => step)).toEqual([1, 2]);
  for (const { step, uri, sha256 } of summary.checkpoints)
    expect([uri.startsWith(`${base}#bigram/step-${step}/`), sha256?.length]).toEqual([true, 64]);
  const policies = ['latest:bigram', { name: 'first', policy: summary.checkpoints[0]?.uri }];
  const file = write('states.yaml', { tasks: { ...task, count: 2 }, policies });
  const { cells } = await longhaulJson<EvalResults>(['eval', file], dir);
  expect(cells.map(({ cell, graded }) => [cell, graded])).toEqual([
    ['latest-bigram/t1', 2],
    ['first/t1', 2],
  ]);
});
