/** The Temporal server, and who follows a run while it is away. */

import type { Mutation } from '../../mutation.ts';

const KILLED = 'the Temporal server is killed';
const AWAY = 'the server stays away for 30 s';
const ENSURE_STACK_TEST = 'test/stack/ensure-stack.test.ts';
const WHILE_AWAY_TEST = 'test/client/while-away.test.ts';
const REWARD_TEST = 'test/activities/reward/reward.test.ts';
const UNDELIVERED_COMPLETION_TEST = 'test/workflows/failures/undelivered-completion.test.ts';

export const server: readonly Mutation[] = [
  {
    name: 'the server forgets what it knew',
    fault: KILLED,
    file: 'stack/temporal-server/server-arguments.ts',
    before: '`--db-filename=${settings.database}`,',
    after: '`--db-filename=${settings.database}-${Date.now()}`,',
    tests: [
      {
        file: ENSURE_STACK_TEST,
        test: 'the server keeps its address and what it knows through its own death, down and up',
      },
    ],
  },
  {
    name: 'the server has another address each time',
    fault: KILLED,
    file: 'stack/supervisor.ts',
    before: 'ports ??= await choosePorts(this.#paths.home, this.#previous);',
    after: 'ports ??= await choosePorts(this.#paths.home, undefined);',
    tests: [
      {
        file: ENSURE_STACK_TEST,
        test: 'the server keeps its address and what it knows through its own death, down and up',
      },
    ],
  },
  {
    name: 'a server that is away is asked once',
    fault: KILLED,
    file: 'client/while-away.ts',
    before: 'if (!isAbsence(error)) throw error;',
    after: 'throw error;',
    tests: [
      { file: WHILE_AWAY_TEST, test: 'asks until the server answers, and says once that it is away' },
      { file: WHILE_AWAY_TEST, test: 'a run is followed' },
      { file: WHILE_AWAY_TEST, test: 'an eval is followed' },
    ],
  },
  {
    name: 'a server that is away is asked for ever',
    fault: KILLED,
    file: 'client/while-away.ts',
    before: 'if (now - since > limitMs) throw error;\n',
    after: '',
    tests: [{ file: WHILE_AWAY_TEST, test: 'gives up when the server has been away for too long', hangs: true }],
  },
  {
    name: 'a server is away since it was asked',
    fault: KILLED,
    file: 'client/while-away.ts',
    before: 'since ??= now;',
    after: 'since ??= asked;',
    tests: [{ file: WHILE_AWAY_TEST, test: 'counts from when the server went away, not from when it was asked' }],
  },
  {
    name: 'a server that refuses is waited for',
    fault: KILLED,
    file: 'client/while-away.ts',
    before: '!REFUSALS.has(',
    after: '!new Set().has(',
    tests: [{ file: WHILE_AWAY_TEST, test: 'does not wait for who answers with a refusal', hangs: true }],
  },
  {
    name: 'a program that waits for an end does not wait for the server',
    fault: KILLED,
    file: 'client/durable-handle.ts',
    before: 'return whileAway(() => this.found(() => this.handle.result() as Promise<Result>));',
    after: 'return this.found(() => this.handle.result() as Promise<Result>);',
    tests: [{ file: WHILE_AWAY_TEST, test: 'a program waits through it for the end of its run, and for each step' }],
  },
  {
    name: 'a program that waits for steps does not wait for the server',
    fault: KILLED,
    file: 'client/run-handle.ts',
    before: '!(await whileAway(() => this.isRunning(), { signal: left, ref: false }))',
    after: '!(await this.isRunning())',
    tests: [{ file: WHILE_AWAY_TEST, test: 'a program waits through it for the end of its run, and for each step' }],
  },
  {
    name: 'who follows a run does not wait for the server',
    fault: KILLED,
    file: 'cli/train/follow.ts',
    before:
      'whileAway(() => handle.isRunning(), {\n        signal,\n        onAway: (line) => screen.line(awayLine(line)),\n      }',
    after: 'handle.isRunning(',
    tests: [{ file: WHILE_AWAY_TEST, test: 'a run is followed' }],
  },
  {
    name: 'who follows an eval does not wait for the server',
    fault: KILLED,
    file: 'cli/eval/follow.ts',
    before:
      'whileAway(() => handle.isRunning(), {\n        signal,\n        onAway: (line) => screen.line(awayLine(line)),\n      }',
    after: 'handle.isRunning(',
    tests: [{ file: WHILE_AWAY_TEST, test: 'an eval is followed' }],
  },
  {
    name: 'a recorded turn is sampled again',
    fault: AWAY,
    file: 'activities/generate/generate.ts',
    before: 'let record = await store.get<GenerateRecord>(key);',
    after: 'let record = undefined as GenerateRecord | undefined;',
    tests: [{ file: UNDELIVERED_COMPLETION_TEST, test: 'a finished and recorded call never runs again' }],
  },
  {
    name: 'a recorded verdict is given again',
    fault: AWAY,
    file: 'activities/reward/reward.ts',
    before: 'known ?? (await grade())',
    after: 'await grade()',
    tests: [{ file: REWARD_TEST, test: 'after a crash behind the verdict writes the outcome without grading again' }],
  },
  {
    name: 'a recorded diff is taken again',
    fault: AWAY,
    file: 'activities/agent-run/agent-run.ts',
    before: 'const known = await store.get<CollectOutcome>(keys.collect(input));',
    after: 'const known = undefined as CollectOutcome | undefined;',
    tests: [{ file: UNDELIVERED_COMPLETION_TEST, test: 'a finished and recorded call never runs again' }],
  },
  {
    name: 'timers of a second that is looked at three times are put aside',
    fault: 'more timers are due than the server reads at once, all the time',
    file: 'stack/temporal-server/server-arguments.ts',
    before: "  'history.queueReaderStuckCriticalAttempts': 0,\n",
    after: '',
    tests: [
      {
        file: 'test/stack/temporal-server/timers.test.ts',
        test: 'no timer is put aside, however many are due within a second',
      },
    ],
  },
];
