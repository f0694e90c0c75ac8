/** Checkpoints that are not what was written. */

import type { Mutation } from '../../mutation.ts';

const FAULT = 'a checkpoint is cut short, or has other bytes';
const VERIFIED_CHECKPOINT_TEST = 'test/trainer/checkpoints/verified-checkpoint.test.ts';

export const checkpoints: readonly Mutation[] = [
  {
    name: "weights are not held to their record's digest",
    fault: FAULT,
    file: 'trainer/checkpoints/verified-checkpoint.ts',
    before: 'if (actual !== record.sha256) throw new CheckpointTorn(dir, `its weights',
    after: 'if (actual === undefined) throw new CheckpointTorn(dir, `its weights',
    tests: [
      {
        file: VERIFIED_CHECKPOINT_TEST,
        test: 'with one bit of its last weight flipped is neither sampled from, trained on nor carried over',
      },
    ],
  },
  {
    name: "moments are not held to their record's digest",
    fault: FAULT,
    file: 'trainer/checkpoints/verified-checkpoint.ts',
    before: "if (actual !== expected)\n    throw new CheckpointTorn(\n      path.join(dir, 'optimizer.safetensors'),",
    after: "if (actual === null)\n    throw new CheckpointTorn(\n      path.join(dir, 'optimizer.safetensors'),",
    tests: [
      { file: VERIFIED_CHECKPOINT_TEST, test: 'whose moments are flipped can be sampled from and is not trained on' },
    ],
  },
  {
    name: "an adapter is not held to its record's digest",
    fault: FAULT,
    file: 'trainer/checkpoints/verified-checkpoint.ts',
    before: 'if (one !== actual) throw',
    after: 'if (one === null) throw',
    tests: [
      {
        file: VERIFIED_CHECKPOINT_TEST,
        test: 'of an adapter with one bit flipped is neither sampled from, trained on nor carried over',
      },
    ],
  },
  {
    name: 'a configuration of an adapter that cannot be read is not told as damage',
    fault: FAULT,
    file: 'trainer/checkpoints/verified-checkpoint.ts',
    before: 'await intact(dir, () => readAdapterJson(dir));',
    after: 'await readAdapterJson(dir);',
    tests: [{ file: VERIFIED_CHECKPOINT_TEST, test: 'of an adapter whose configuration was cut short is neither' }],
  },
  {
    name: 'files that cannot be read are not told as damage',
    fault: FAULT,
    file: 'trainer/checkpoints/verified-checkpoint.ts',
    before: 'isDamage(error) ? new CheckpointTorn(dir, error.message, { cause: error }) : error',
    after: 'error',
    tests: [
      { file: VERIFIED_CHECKPOINT_TEST, test: 'whose weights were cut short is neither' },
      { file: VERIFIED_CHECKPOINT_TEST, test: 'whose weights are gone is neither' },
      { file: VERIFIED_CHECKPOINT_TEST, test: 'whose record was cut short is neither' },
      { file: VERIFIED_CHECKPOINT_TEST, test: 'whose moments are gone can be sampled from and is not trained on' },
    ],
  },
  {
    name: 'a record without a digest is taken for whole',
    fault: FAULT,
    file: 'trainer/checkpoints/verified-checkpoint.ts',
    before: "\n    throw new CheckpointTorn(dir, 'longhaul.json has no sha256')",
    after: ' return undefined',
    tests: [{ file: VERIFIED_CHECKPOINT_TEST, test: 'whose record lacks the digest is neither' }],
  },
  {
    name: 'policies in training are read without a look at their digest',
    fault: FAULT,
    file: 'trainer/resident-policy.ts',
    before: 'readVerifiedConfig(dir), readVerifiedPolicy(dir)]);',
    after:
      "readVerifiedConfig(dir), import('./model/weights.ts').then(async ({ loadWeights }) => ({ weights: await loadWeights(dir), adapter: undefined }))]);",
    tests: [
      {
        file: VERIFIED_CHECKPOINT_TEST,
        test: 'with one bit of its last weight flipped is neither sampled from, trained on nor carried over',
      },
    ],
  },
];
