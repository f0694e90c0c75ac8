/** Runs that go on under another build. */

import type { Mutation } from '../mutation.ts';

const FAULT = 'an upgrade changes the workflow code';
const REPLAY_TEST = 'test/workflows/replay.test.ts';
const SIDE_BY_SIDE_TEST = 'test/workers/versioning/side-by-side.test.ts';

export const upgrades: readonly Mutation[] = [
  {
    name: 'a rollout shows no more how it ended',
    fault: FAULT,
    file: 'workflows/rollout.ts',
    before: 'publishEnd(state);\n  return resultOf',
    after: 'return resultOf',
    tests: [{ file: REPLAY_TEST, test: 'rollout-happy.json replays' }],
  },
  {
    name: 'rollouts are not pinned to their build',
    fault: FAULT,
    file: 'workflows/versioned.ts',
    before: "setWorkflowOptions({ versioningBehavior: 'PINNED' }, rollout);",
    after: '',
    tests: [{ file: SIDE_BY_SIDE_TEST, test: 'a rollout and its batch end on the build that they began with' }],
  },
  {
    name: 'nobody serves earlier builds',
    fault: FAULT,
    file: 'workers/versioning/earlier-builds.ts',
    before: 'for (const build of wanted) if (!this.#running.has(build)) await this.#begin(build);\n',
    after: '',
    tests: [{ file: SIDE_BY_SIDE_TEST, test: 'a rollout and its batch end on the build that they began with' }],
  },
  {
    name: 'a build that nobody can serve is not named',
    fault: FAULT,
    file: 'workers/versioning/earlier-builds.ts',
    before: '!this.#absent.has(build)',
    after: "build === ''",
    tests: [{ file: SIDE_BY_SIDE_TEST, test: 'names a build whose code is not there, once' }],
  },
];
