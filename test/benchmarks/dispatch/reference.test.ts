/** Hunts a reference that differs from SkyRL-Agent's when many stages end at once: their order decides the rest. */

import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, it } from 'vitest';
import { dispatchCase } from '../../../benchmarks/dispatch/cases.ts';
import { simulateReference } from '../../../benchmarks/dispatch/reference.ts';

type Given = Parameters<typeof dispatchCase>[0];
interface Vectors {
  readonly cases: ReadonlyArray<
    Omit<Given, 'name'> & {
      readonly makespan: number;
      readonly ended: ReadonlyArray<readonly [number, number, string, number]>;
    }
  >;
}

const folder = resolve(process.env['LONGHAUL_VECTORS'] ?? join(import.meta.dirname, '../../vectors'));
const { cases } = JSON.parse(readFileSync(join(folder, 'dispatch-ties.json'), 'utf8')) as Vectors;
const STAGES = { init: 'init', 'agent-run': 'run', reward: 'eval' } as const;

it.each(cases.map((given, index) => ({ given, index })))('case $index: every end in its order', ({ given }) => {
  const one = dispatchCase({ ...given, name: 'ties' });
  const ended = simulateReference(one).map(({ rollout, stage, end }) => [
    Math.floor(rollout / one.samples),
    rollout % one.samples,
    STAGES[stage],
    Number(end.toFixed(9)),
  ]);
  expect(ended).toEqual(given.ended);
});
