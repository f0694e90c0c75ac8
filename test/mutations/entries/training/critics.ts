/** Critics that end in the same bits, and are never lost. */

import type { Mutation } from '../../mutation.ts';

const CRITIC = 'the GPU worker is killed while a critic is trained, whole or in shards';
const WHOLE_TEST = 'test/trainer/critic/update-with-critic.test.ts';
const SHARDED_TEST = 'test/trainer/sharded/sharded-critic.test.ts';
const LOST_PARTS_TEST = 'test/trainer/sharded/lost-critic-parts.test.ts';

export const critics: readonly Mutation[] = [
  {
    name: "a critic's moments begin at zero in each process",
    fault: CRITIC,
    file: 'trainer/critic/critic.ts',
    before: 'known === undefined ? AdamW.fresh(layout) : AdamW.load(layout, known.moments, known.steps)',
    after: 'known === undefined ? AdamW.fresh(layout) : AdamW.fresh(layout)',
    tests: [
      { file: WHOLE_TEST, test: 'three updates in one process and in three end in the same bits of policy and critic' },
      {
        file: SHARDED_TEST,
        test: 'a critic beside the policy continues with its moments, whether either update was sharded or not',
      },
    ],
  },
  {
    name: 'a critic shuffles otherwise each time',
    fault: CRITIC,
    file: 'trainer/critic/train-critic.ts',
    before: '`${key} critic epoch ${epoch}`',
    after: '`${key} critic epoch ${epoch} ${Math.random()}`',
    tests: [
      { file: WHOLE_TEST, test: 'three updates in one process and in three end in the same bits of policy and critic' },
      { file: LOST_PARTS_TEST, test: 'continues on another worker if one dies before or after any part' },
    ],
  },
  {
    name: 'a critic that is lost begins anew',
    fault: CRITIC,
    file: 'trainer/checkpoints/verified-checkpoint.ts',
    before:
      "if (actual !== expected)\n    throw new CheckpointTorn(own, `its record has digest ${actual ?? 'none'}, the policy's record has ${expected}`);",
    after:
      "if (actual !== expected && actual === undefined) return undefined;\n  if (actual !== expected)\n    throw new CheckpointTorn(own, `its record has digest ${actual ?? 'none'}, the policy's record has ${expected}`);",
    tests: [
      { file: WHOLE_TEST, test: 'a critic that is torn, or not the one that was written, is never used' },
      {
        file: SHARDED_TEST,
        test: 'a critic beside the policy continues with its moments, whether either update was sharded or not',
      },
    ],
  },
  {
    name: "the critic's last state is cleared away before the policy's is there",
    fault: CRITIC,
    file: 'trainer/sharded/located-plan.ts',
    before: 'before.filter((one) => one !== ofCritic)',
    after: 'before',
    tests: [
      {
        file: SHARDED_TEST,
        test: "plans the critic's rounds before the policy's, and keeps its state until both are written",
      },
    ],
  },
  {
    name: 'a shard of another place is added',
    fault: CRITIC,
    file: 'trainer/sharded/sharded-updater.ts',
    before: 'return found?.of.join() === [sha256, round, shard].join() ? found : undefined;',
    after: 'return found !== undefined && sha256.length + round + shard >= 0 ? found : undefined;',
    tests: [{ file: LOST_PARTS_TEST, test: 'a missing shard of the critic is made by the step' }],
  },
  {
    name: "a late step of a critic brings back the update's folder",
    fault: CRITIC,
    file: 'trainer/sharded/critic-round.ts',
    before: '    await checkPlanned(this.#at);\n',
    after: '    if (this.#round < 0) await checkPlanned(this.#at);\n',
    tests: [
      {
        file: LOST_PARTS_TEST,
        test: 'a late step of the critic, whose update was removed in the meantime, creates no file again',
      },
    ],
  },
];
