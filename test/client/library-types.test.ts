/** Hunts types of the library that accept wrong settings of a run: the compiler is the test. */

import { expect, expectTypeOf, it } from 'vitest';
import type { Longhaul, RunConfig, RunSettings } from '../../client/index.ts';
import { resolveRunConfig } from '../../config/run-config.ts';

const least: RunSettings = { policy: { base: '/p' }, task: { name: 'swe-mini' } };

it('a run is given by its settings, with defaults left out or filled in', () => {
  expectTypeOf<Parameters<Longhaul['train']>[0]>().toEqualTypeOf<RunSettings | RunConfig>();
  const more: RunSettings = {
    ...least,
    batch: { tasks: 2 },
    algorithm: { loss: 'gspo', kl: { in: 'loss' } },
    training: { mode: 'async' },
  };
  expect(resolveRunConfig(more, '/')).toMatchObject({ batch: { tasks: 2, samples: 8 }, algorithm: { loss: 'gspo' } });
});

it('what a run has no setting for, or not of that kind, does not compile', () => {
  // @ts-expect-error: no such setting
  const unknown: RunSettings = { ...least, batches: {} };
  // @ts-expect-error: a number
  const kind: RunSettings = { ...least, steps: 'ten' };
  // @ts-expect-error: no such setting below
  const below: RunSettings = { ...least, algorithm: { learningrate: 1 } };
  for (const wrong of [unknown, kind, below]) expect(() => resolveRunConfig(wrong, '/')).toThrow(/cannot be used/);
});
