/** Servers of policies that are down. */

import type { Mutation } from '../mutation.ts';

const FAULT = 'an endpoint is down, or takes requests and never answers';
const ENDPOINT_DOWN_TEST = 'test/workflows/failures/endpoint-down.test.ts';

export const endpoints: readonly Mutation[] = [
  {
    name: 'patience that ends in the middle of a try is told as the deadline of the rollout',
    fault: FAULT,
    file: 'workflows/rollout/rollout-stages.ts',
    before: 'if (!wasOutOfTime(error) || endpoint.patienceSeconds * 1000 >= withinMs) throw error;',
    after: 'if (!wasOutOfTime(error) || withinMs >= 0) throw error;',
    tests: [{ file: ENDPOINT_DOWN_TEST, test: 'a server that takes a request and never answers is down as well' }],
  },
  {
    name: 'a deadline of the rollout is told as an endpoint that is down',
    fault: FAULT,
    file: 'workflows/rollout/rollout-stages.ts',
    before: ' || endpoint.patienceSeconds * 1000 >= withinMs) throw error;',
    after: ') throw error;',
    tests: [
      { file: ENDPOINT_DOWN_TEST, test: "the rollout's own time, where it is shorter, is a deadline all the same" },
    ],
  },
];
