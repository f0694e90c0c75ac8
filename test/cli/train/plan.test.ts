/** Hunts plans that say of a run what it does not do. */
import { expect, it } from 'vitest';
import { planLines } from '../../../cli/train/plan.ts';
import { resolveRunConfig } from '../../../config/run-config.ts';

const linesOf = (algorithm: object): string =>
  planLines(
    resolveRunConfig({ task: { name: 'swe-mini' }, policy: { base: '/p' }, modules: ['m.ts'], algorithm }, '/'),
  ).join('\n');

it('a range of clipping is reported of losses that are known to use it', () => {
  expect(linesOf({ loss: 'regular' })).toContain('grpo, loss regular clipped to −0.2/+0.28, token_mean');
  expect(linesOf({ loss: 'mine' })).toContain('grpo, loss mine, token_mean');
  expect(linesOf({ loss: 'sapo' })).toContain('grpo, loss sapo, token_mean');
});
