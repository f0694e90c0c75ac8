/** Files of an update in shards that are taken away, cut short, or of another version. */

import type { Mutation } from '../../mutation.ts';

const SHARDS = 'the files of an update in shards are removed or cut short';
const VERSIONS = 'GPU workers of two versions meet in an update in shards';
const SHARDED_UPDATER_TEST = 'test/trainer/sharded/sharded-updater.test.ts';
const LOST_CRITIC_PARTS_TEST = 'test/trainer/sharded/lost-critic-parts.test.ts';
const KNOWN_PLAN_TEST = 'test/trainer/sharded/known-plan.test.ts';
const PLAN_FILE_TEST = 'test/trainer/sharded/plan-file.test.ts';
const GPU_POOL_TEST = 'test/workflows/gpu-pool.test.ts';

export const shards: readonly Mutation[] = [
  {
    name: 'a state between two steps that is lost is waited for',
    fault: SHARDS,
    file: 'trainer/sharded/lost-state.ts',
    before: 'if (!(error instanceof CheckpointTorn) || !isOwn(at, error.dir)) throw error;',
    after: 'if (!(error instanceof CheckpointTorn) || isOwn(at, error.dir)) throw error;',
    tests: [{ file: LOST_CRITIC_PARTS_TEST, test: 'a state between two rounds that is lost' }],
  },
  {
    name: 'a state without its record is read as a model that was never trained',
    fault: SHARDS,
    file: 'trainer/sharded/lost-state.ts',
    before: 'if ((await readVerifiedRecord(dir)) === undefined) throw',
    after: "if ((await readVerifiedRecord(dir)) === undefined && dir === '') throw",
    tests: [
      { file: LOST_CRITIC_PARTS_TEST, test: "the policy's, without its record: its moments would begin at zero" },
    ],
  },
  {
    name: 'an update whose plan is gone fails its run',
    fault: SHARDS,
    file: 'workflows/training/update-in-shards.ts',
    before: 'if (!isPlanLost(error) || plans >= PLANS',
    after: 'if (isPlanLost(error) || plans >= PLANS',
    tests: [{ file: GPU_POOL_TEST, test: 'whose files were removed half-way is planned again, three times at most' }],
  },
  {
    name: 'a plan in memory counts though its file is gone',
    fault: SHARDS,
    file: 'trainer/sharded/known-plan.ts',
    before: ' && held.stamp === (await planStamp(dir))) return',
    after: ') return',
    tests: [{ file: KNOWN_PLAN_TEST, test: 'does not use its plan if another one replaced it' }],
  },
  {
    name: 'a folder that goes while a shard is made is taken for a fault of the disk',
    fault: SHARDS,
    file: 'trainer/sharded/sharded-updater.ts',
    before: 'await checkPlanned(at);\n      throw error;',
    after: 'throw error;',
    tests: [{ file: KNOWN_PLAN_TEST, test: 'notices it too if that happens while it makes another shard' }],
  },
  {
    name: 'a plan of another version is read as if it were ours',
    fault: VERSIONS,
    file: 'trainer/sharded/plan-file.ts',
    before: 'if (format !== PLAN_FORMAT) throw',
    after: 'if (format === undefined) throw',
    tests: [{ file: PLAN_FILE_TEST, test: 'of format 2 is refused by all that read it, with what helps' }],
  },
  {
    name: 'a torn shard is added as it is',
    fault: SHARDS,
    file: 'trainer/sharded/sealed-file.ts',
    before: 'if (digest.length < DIGEST_BYTES || !digestOf(content).equals(digest)) return undefined;',
    after: 'if (digest.length < DIGEST_BYTES || content.length < 1000) return undefined;',
    tests: [{ file: SHARDED_UPDATER_TEST, test: 'a step makes torn, missing and foreign shards again' }],
  },
];
