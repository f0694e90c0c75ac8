/** Workers that are killed: who starts another, and what begins again. */

import type { Mutation } from '../../mutation.ts';

const KILLED = 'a worker is killed, idle or busy';
const SUPERVISOR_TEST = 'test/stack/supervisor.test.ts';
const GENERATE_TEST = 'test/activities/generate/generate.test.ts';
const SILENT_WORKERS_TEST = 'test/workflows/failures/silent-workers.test.ts';

export const workers: readonly Mutation[] = [
  {
    name: 'a dead worker is not started again',
    fault: KILLED,
    file: 'stack/processes/managed-process.ts',
    before: 'this.#restarts += 1;\n      this.#running = this.#spawn();',
    after: 'return;',
    tests: [{ file: SUPERVISOR_TEST, test: 'a worker that is killed starts again, and the stack says so' }],
  },
  {
    name: 'a model call that begins again samples with other noise',
    fault: KILLED,
    file: 'activities/generate/generate.ts',
    before: 'rollout, noiseKey, ...call };',
    after: 'rollout, noiseKey: `${noiseKey} ${Date.now()}`, ...call };',
    tests: [
      { file: GENERATE_TEST, test: 'asks the engine for the policy, the noise and the sampling that it was given' },
    ],
  },
  {
    name: 'a silent worker of init is waited for',
    fault: KILLED,
    file: 'workflows/activity-stubs.ts',
    before: "scheduleToCloseTimeout: OUTAGE,\n  heartbeatTimeout: '15s',\n  retry: retry(RETRIES.init),",
    after: "scheduleToCloseTimeout: OUTAGE,\n  heartbeatTimeout: '2h',\n  retry: retry(RETRIES.init),",
    tests: [{ file: SILENT_WORKERS_TEST, test: 'what a silent worker had started is started again' }],
  },
  {
    name: 'a silent worker of gpu is waited for',
    fault: KILLED,
    file: 'workflows/activity-stubs.ts',
    before: "heartbeatTimeout: '15s',\n  retry: retry(RETRIES.gpu),\n} as const",
    after: "heartbeatTimeout: '2h',\n  retry: retry(RETRIES.gpu),\n} as const",
    tests: [{ file: SILENT_WORKERS_TEST, test: 'what a silent worker had started is started again' }],
  },
  {
    name: 'a silent worker of reward is waited for',
    fault: KILLED,
    file: 'workflows/activity-stubs.ts',
    before: "heartbeatTimeout: '15s',\n    retry: retry(RETRIES.reward),",
    after: "heartbeatTimeout: '2h',\n    retry: retry(RETRIES.reward),",
    tests: [{ file: SILENT_WORKERS_TEST, test: 'what a silent worker had started is started again' }],
  },
  {
    name: 'a silent worker of agent-run is waited for',
    fault: KILLED,
    file: 'workflows/activity-stubs.ts',
    before:
      "scheduleToStartTimeout: HOST_GONE,\n    scheduleToCloseTimeout: OUTAGE,\n    startToCloseTimeout: `${toolTimeoutSeconds * 4 + BESIDE_CALLS_SECONDS}s`,\n    heartbeatTimeout: '15s',",
    after:
      "scheduleToStartTimeout: HOST_GONE,\n    scheduleToCloseTimeout: OUTAGE,\n    startToCloseTimeout: `${toolTimeoutSeconds * 4 + BESIDE_CALLS_SECONDS}s`,\n    heartbeatTimeout: '2h',",
    tests: [{ file: SILENT_WORKERS_TEST, test: 'what a silent worker had started is started again' }],
  },
  {
    name: 'a silent worker of orchestrator is waited for',
    fault: KILLED,
    file: 'workflows/activity-stubs.ts',
    before: "startToCloseTimeout: '10m',\n  heartbeatTimeout: '15s',",
    after: "startToCloseTimeout: '10m',\n  heartbeatTimeout: '2h',",
    tests: [{ file: SILENT_WORKERS_TEST, test: 'what a silent worker had started is started again' }],
  },
];
