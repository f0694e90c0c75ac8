/** Programs that are agents: what they report, how they end, and what is lost under them. */

import type { Mutation } from '../mutation.ts';

const PROGRAM = 'a program that is the agent dies, hangs, reports wrongly, or loses its worker or its sandbox';
const EXTERNAL_TEST = 'test/workflows/rollout/external-rollout.test.ts';

export const programs: readonly Mutation[] = [
  {
    name: 'the silence of a program elsewhere is graded',
    fault: PROGRAM,
    file: 'workflows/rollout/await-program.ts',
    before: 'throw silent(program.timeoutSeconds);',
    after: "return { type: 'program-ended', finish: 'program-timeout' };",
    tests: [{ file: EXTERNAL_TEST, test: 'that is silent until its time is over has no reward' }],
  },
  {
    name: 'a wrong report enters the history',
    fault: PROGRAM,
    file: 'workflows/rollout/program-reports.ts',
    before: 'if (problem !== undefined) throw refusal(REFUSED.wrong, problem);',
    after: 'if (problem === undefined) this.#received += 0;',
    tests: [{ file: EXTERNAL_TEST, test: 'is refused by name, and nothing of it is in the history' }],
  },
  {
    name: 'a program runs again after a lost worker',
    fault: PROGRAM,
    file: 'activities/agent-run/program.ts',
    before: 'callId: `${attemptKey(input)}/program`',
    after: 'callId: `${attemptKey(input)}/program-${Date.now()}`',
    tests: [{ file: EXTERNAL_TEST, test: 'runs once, however many workers run its activity' }],
  },
  {
    name: 'a report is in two turns after another has overtaken it',
    fault: PROGRAM,
    file: 'workflows/rollout/program-reports.ts',
    before: 'if (report === undefined) break;',
    after: 'if (report === undefined) continue;',
    tests: [{ file: EXTERNAL_TEST, test: 'turns that overtake each other are in order' }],
  },
];
