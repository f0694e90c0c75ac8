/** The supervisor, its workers, and the program that waits. */

import type { Mutation } from '../../mutation.ts';

const KILLED = 'the supervisor is killed';
const STANDS_STILL = 'a process of the stack is stopped (SIGSTOP), hangs, or ended unnoticed';
const BY_HAND = "a worker is started by hand in a stack's folder";
const LIST_PROCESSES_TEST = 'test/stack/processes/list-processes.test.ts';
const CLIENT = 'the program that waits is killed, or its terminal closed';
const SUPERVISOR_TEST = 'test/stack/supervisor.test.ts';
const STACK_SETTINGS_TEST = 'test/stack/stack-settings.test.ts';
const WATCH_PLACE_TEST = 'test/workers/watch-place.test.ts';
const RUNS_ON_TEMPORAL_TEST = 'test/cli/verbs/runs-on-temporal.test.ts';

export const supervisor: readonly Mutation[] = [
  {
    name: 'the next supervisor adopts nothing',
    fault: KILLED,
    file: 'stack/processes/managed-process.ts',
    before: 'const adoptable = found !== undefined && previous?.digest === this.spec.digest && isAlive(found);',
    after: 'const adoptable = found !== undefined && previous?.digest !== this.spec.digest && isAlive(found);',
    tests: [
      {
        file: SUPERVISOR_TEST,
        test: 'killed itself, the supervisor leaves its workers running, and the next one takes them over',
      },
    ],
  },
  {
    name: 'what is wanted with other arguments runs on beside its successor',
    fault: KILLED,
    file: 'stack/supervisor.ts',
    before: 'await this.#endUnwanted(specs);\n',
    after: '',
    tests: [
      {
        file: SUPERVISOR_TEST,
        test: 'killed itself, the supervisor leaves its workers running, and the next one takes them over',
      },
    ],
  },
  {
    name: 'who takes processes over forgets what they were told',
    fault: KILLED,
    file: 'stack/ensure-stack.ts',
    before: 'return running.settings ?? {};',
    after: 'return {};',
    tests: [
      {
        file: STACK_SETTINGS_TEST,
        test: 'a stack that is up, or whose supervisor was killed, keeps what it was told, and refuses anything else',
      },
    ],
  },
  {
    name: 'the death of an adopted worker is not noticed',
    fault: KILLED,
    file: 'stack/processes/managed-process.ts',
    before: 'while (isAlive(identity)) await sleep(ADOPTED_POLL_MS);',
    after: 'while (identity.pid > 0) await sleep(ADOPTED_POLL_MS);',
    tests: [
      {
        file: SUPERVISOR_TEST,
        test: 'killed itself, the supervisor leaves its workers running, and the next one takes them over',
      },
    ],
  },
  {
    name: 'a pid is taken for the process that had it',
    fault: KILLED,
    file: 'scripts/setup/process-identity.mjs',
    before: "return identity.startTime !== '' && startTimeOf(identity.pid) === identity.startTime;",
    after: "return identity.startTime !== '' && startTimeOf(identity.pid) !== undefined;",
    tests: [
      { file: SUPERVISOR_TEST, test: 'a process that got the pid of a dead worker is neither adopted nor stopped' },
    ],
  },
  {
    name: 'a worker whose place is taken stays',
    fault: KILLED,
    file: 'workers/watch-place.ts',
    before: "if (over || place === 'own' || (place === 'missing' && misses < MISSES)) return;",
    after: "if (over || place !== 'missing' || misses < MISSES) return;",
    tests: [{ file: WATCH_PLACE_TEST, test: 'ends once when another process has its place' }],
  },
  {
    name: 'a worker whose stack is gone stays',
    fault: KILLED,
    file: 'workers/watch-place.ts',
    before: "if (over || place === 'own' || (place === 'missing' && misses < MISSES)) return;",
    after: "if (over || place !== 'taken') return;",
    tests: [{ file: WATCH_PLACE_TEST, test: 'ends when nobody has it any more' }],
  },
  {
    name: 'no worker watches its place',
    fault: KILLED,
    file: 'workers/run-worker.ts',
    before: 'const endWatch = name === undefined ? () => undefined : watchPlace(ready, lost);',
    after: 'const endWatch = name === undefined ? () => undefined : () => void lost;',
    tests: [{ file: WATCH_PLACE_TEST, test: 'a real worker ends when another one has its place' }],
  },
  {
    name: 'who asks for a live run again ends it and begins anew',
    fault: CLIENT,
    file: 'client/longhaul.ts',
    before:
      '          : WorkflowIdReusePolicy.REJECT_DUPLICATE,\n        workflowIdConflictPolicy: WorkflowIdConflictPolicy.USE_EXISTING,',
    after:
      '          : WorkflowIdReusePolicy.REJECT_DUPLICATE,\n        workflowIdConflictPolicy: WorkflowIdConflictPolicy.TERMINATE_EXISTING,',
    tests: [
      {
        file: RUNS_ON_TEMPORAL_TEST,
        test: 'a program that waits is killed: its run goes on, and the same call attaches to it',
      },
    ],
  },
  {
    name: 'a process that is stopped is called ready',
    fault: STANDS_STILL,
    file: 'stack/processes/list-processes.ts',
    before: "if (standing === 'stopped'",
    after: "if (standing === 'zombie'",
    tests: [{ file: LIST_PROCESSES_TEST, test: 'a worker and a supervisor that are stopped are shown so' }],
  },
  {
    name: 'a worker that says no more that it works is called ready',
    fault: STANDS_STILL,
    file: 'stack/processes/list-processes.ts',
    before: 'if (quiet < SILENT_MS) return { state };',
    after: 'if (quiet >= 0) return { state };',
    tests: [{ file: LIST_PROCESSES_TEST, test: 'a worker that has not said for a minute that it works is silent' }],
  },
  {
    name: 'a worker does not say that it works',
    fault: STANDS_STILL,
    file: 'workers/watch-place.ts',
    before: "if (place === 'own') await utimes(path, new Date(), new Date()).catch(() => undefined);\n",
    after: '',
    tests: [{ file: WATCH_PLACE_TEST, test: 'a worker whose file is its own says again and again that it works' }],
  },
  {
    name: 'a worker that is started by hand takes the place of its role',
    fault: BY_HAND,
    file: 'workers/run-worker.ts',
    before: 'name ?? `${role}-by-hand-${process.pid}`',
    after: 'name ?? role',
    tests: [{ file: WATCH_PLACE_TEST, test: 'a worker that is started by hand has a place of its own' }],
  },
  {
    name: 'a worker takes a place that another one has',
    fault: BY_HAND,
    file: 'workers/run-worker.ts',
    before: 'if (holder === undefined || holder === process.pid ||',
    after: 'if (holder !== process.pid ||',
    tests: [{ file: WATCH_PLACE_TEST, test: 'a worker that is started by hand has a place of its own', hangs: true }],
  },
];
