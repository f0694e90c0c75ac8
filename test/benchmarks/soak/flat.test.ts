/** Hunts a soak that reports growth as flat, or a process's start as growth. */

import { expect, test } from 'vitest';
import { memoryCurve } from '../../../benchmarks/soak/curve.ts';
import { flatness, growth } from '../../../benchmarks/soak/flat.ts';
import { type Sample, sampleProcess } from '../../../benchmarks/soak/samples.ts';

const soak = (residentMiB: (at: number) => number, length = 100): Sample[] =>
  Array.from({ length }, (_, i) => i + 1).map((at) => ({
    at,
    seconds: at,
    processes: { gpu: { residentMiB: residentMiB(at), anonymousMiB: 1, cpuSeconds: at } },
    databases: { store: 1000 + 7 * at },
  }));

test.each<[string, boolean, (at: number) => number]>([
  ['constant', true, () => 1000],
  ['growing while it warms up', true, (at) => 1000 + 40 * Math.min(at, 10)],
  ['a saw', true, (at) => 500 + 5 * (at % 8)],
  ['by 10 MiB a step', false, (at) => 1200 + 10 * at],
  ['by 3 MiB a step', false, (at) => 1000 + 3 * at],
])('%s: flat is %j', (_, flat, residentMiB) => {
  expect(flatness(soak(residentMiB))['gpu']).toMatchObject({ flat });
});

test('a soak of one sample has no growth', () => {
  expect(growth(soak(() => 1, 1))).toEqual({});
  expect(growth(soak(() => 1))).toEqual({ store: 7 });
});

test('the curve has a line for each process', () => {
  expect(
    memoryCurve(
      soak((at) => at),
      'steps',
    ).match(/<polyline/g),
  ).toHaveLength(1);
});

test('a process is seen while it lives', () => {
  expect(sampleProcess(process.pid)).toMatchObject({ residentMiB: expect.any(Number) as number });
  expect(sampleProcess(process.pid)?.residentMiB).toBeGreaterThan(10);
  expect(sampleProcess(2 ** 22 + 1)).toBeUndefined();
});
