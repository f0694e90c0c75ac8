/** Turns of one update that were sampled at different temperatures. */

import type { Mutation } from '../../mutation.ts';

const TEMPERATURES = 'turns of one update were sampled at different temperatures, or not at 1';
const TEMPERATURE_TEST = 'test/trainer/training/temperature.test.ts';

export const temperatures: readonly Mutation[] = [
  {
    name: 'logits are not divided by the temperature',
    fault: TEMPERATURES,
    file: 'trainer/learner.ts',
    before: 'temperatures === undefined ? plain : div(plain, temperatures)',
    after: 'plain',
    tests: [
      { file: TEMPERATURE_TEST, test: 'an update of what was sampled at 0.6 finds the policy that sampled' },
      { file: TEMPERATURE_TEST, test: 'an update of what was sampled at 1.7 finds the policy that sampled' },
    ],
  },
  {
    name: 'gradients are not divided by the temperature',
    fault: TEMPERATURES,
    file: 'trainer/learner.ts',
    before: 'forward.temperatures === undefined ? dHidden : div(dHidden, forward.temperatures)',
    after: 'dHidden',
    tests: [{ file: TEMPERATURE_TEST, test: 'the gradient equals finite differences' }],
  },
  {
    name: 'passes are not told of temperatures',
    fault: TEMPERATURES,
    file: 'trainer/training/prepare-update.ts',
    before: '...(temperatures && { temperatures })',
    after: '...(temperatures && {})',
    tests: [{ file: TEMPERATURE_TEST, test: 'an update of what was sampled at 0.6 finds the policy that sampled' }],
  },
  {
    name: 'a turn does not say its temperature',
    fault: TEMPERATURES,
    file: 'activities/generate/sample-ids.ts',
    before: '    temperature: sampling.temperature,\n',
    after: '',
    tests: [
      { file: 'test/activities/generate/generate.test.ts', test: 'keeps the temperature 0.6 that it was sampled at' },
    ],
  },
];
