/** What leaves the store while others read and write it. */

import type { Mutation } from '../../mutation.ts';

const PRUNED =
  'records of an ended run are pruned: the command is killed, the run is begun again meanwhile, or another run records the same artifact';
const PRUNE_TEST = 'test/activities/orchestrator/prune-records.test.ts';

export const pruning: readonly Mutation[] = [
  {
    name: 'turns go before their trajectory is kept',
    fault: PRUNED,
    file: 'activities/orchestrator/prune-records.ts',
    before: 'for (const outcome of some) await keepTrajectory(outcome, store);',
    after: 'if (some.length === 0) await keepTrajectory(some[0] as OutcomeRecord, store);',
    tests: [{ file: PRUNE_TEST, test: 'leaves the trajectory as it was, and nothing that only the work read' }],
  },
  {
    name: 'a trajectory is kept without its last turn',
    fault: PRUNED,
    file: 'reports/trajectories.ts',
    before: "outcome.status === 'graded' ? outcome.turns : 0",
    after: '0',
    tests: [
      { file: PRUNE_TEST, test: 'is refused for a rollout whose last turn cannot be found, and its other turns stay' },
    ],
  },
  {
    name: 'an interrupted prune leaves objects that nothing names',
    fault: PRUNED,
    file: 'activities/orchestrator/prune-records.ts',
    before: "  'ungraded',\n",
    after: "  'ungraded',\n  'collect',\n",
    tests: [
      {
        file: PRUNE_TEST,
        test: 'may be killed after some rollouts have been pruned, and the next call takes their objects',
      },
    ],
  },
  {
    name: 'a run that is begun again while it is pruned loses its turns',
    fault: PRUNED,
    file: 'activities/orchestrator/prune-records.ts',
    before: '  if ((await prunable(name, store)) !== undefined) return;\n',
    after: '  return;\n',
    tests: [{ file: PRUNE_TEST, test: 'gives way to a run that is started again at the same moment' }],
  },
  {
    name: 'a pruned run is begun again',
    fault: PRUNED,
    file: 'activities/orchestrator/prune-records.ts',
    before: '  if (mark === undefined) return;\n',
    after: "  if (mark === undefined || mark.at !== '') return;\n",
    tests: [{ file: PRUNE_TEST, test: 'is refused for a run that is started again, before anything is changed' }],
  },
  {
    name: 'an object goes that another run names',
    fault: PRUNED,
    file: 'store/sqlite-prune.ts',
    before: '.filter((ref) => !kept.has(ref',
    after: '.filter((ref) => !kept.has(`${ref} `',
    tests: [
      {
        file: PRUNE_TEST,
        test: 'leaves what other runs have: records of a run whose name has the same prefix, and an object that both name',
      },
    ],
  },
];
