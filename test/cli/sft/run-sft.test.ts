/** Which sequences a stage is trained on. Not asserted: what training gives; see test/trainer/sft.test.ts. */
import { expect, it } from 'vitest';
import { firstsOf } from '../../../cli/sft/run-sft.ts';

const stage = (data: 'drills' | 'clean' | 'mixed', steps: number, first?: number) => ({
  data, steps, batchSize: 32, learningRate: 1e-3, warmup: 0, schedule: 'cosine' as const, finalRate: 0, ...(first === undefined ? {} : { first }),
});

it('go on from the last stage of their kind, or begin where the stage says', () => {
  expect(firstsOf([stage('clean', 10), stage('drills', 5), stage('clean', 2), stage('clean', 1, 9000), stage('clean', 1), stage('drills', 1)])).toEqual([0, 0, 320, 9000, 9032, 160]);
});
