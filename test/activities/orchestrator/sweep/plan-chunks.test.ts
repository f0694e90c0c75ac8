/** Hunts samples that are rolled out twice or never after a resume, and batches beyond what a history can hold. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { planChunks } from '../../../../activities/orchestrator/sweep/plan-chunks.ts';

const cases = fc.record({
  tasks: fc.integer({ min: 1, max: 30 }),
  samples: fc.integer({ min: 1, max: 12 }),
  most: fc.integer({ min: 1, max: 20 }),
  graded: fc.func(fc.boolean()),
});

it('has every missing sample in exactly one chunk, none too large, none that is known', () => {
  fc.assert(
    fc.property(cases, ({ tasks, samples, most, graded }) => {
      const names = Array.from({ length: tasks }, (_, i) => `t-${i}`);
      const has = (task: string, sample: number) => graded(task, sample);
      const chunks = planChunks(names, samples, has, most);
      const planned = chunks.flatMap(({ tasks: own, firstSample, samples: n }) =>
        own.flatMap((task) => Array.from({ length: n }, (_, k) => `${task}/${firstSample + k}`)),
      );
      const missing = names.flatMap((task) =>
        Array.from({ length: samples }, (_, k) => k)
          .filter((k) => !has(task, k))
          .map((k) => `${task}/${k}`),
      );
      expect([...planned].sort()).toEqual([...missing].sort());
      for (const chunk of chunks) expect(chunk.tasks.length * chunk.samples).toBeLessThanOrEqual(most);
    }),
  );
});

it('makes as few chunks as possible for a new sweep', () => {
  const names = Array.from({ length: 10_000 }, (_, i) => `t-${i}`);
  const chunks = planChunks(names, 4, () => false);
  expect(chunks.length).toBe(80);
  expect(chunks[0]).toMatchObject({ firstSample: 0, samples: 4 });
});
