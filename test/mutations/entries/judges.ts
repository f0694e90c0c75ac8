/** Judges that are down or asked by a worker that dies, and budgets that are spent. */

import type { Mutation } from '../mutation.ts';

const DOWN = 'a judge is down, refuses its key, or never answers';
const KILLED = 'a worker is killed between a judge’s answer and its use';
const SPENT = 'a budget of tokens, money or time is spent';
const ASK_TEST = 'test/activities/ask.test.ts';
const BUDGETS_TEST = 'test/workflows/budgets.test.ts';

export const judges: readonly Mutation[] = [
  {
    name: 'a grader that catches the failure of its judge makes a verdict',
    fault: DOWN,
    file: 'activities/ask.ts',
    before: 'if (asker.failure === undefined) return result;',
    after: 'return result;',
    tests: [{ file: ASK_TEST, test: 'makes no verdict, though the grader catches its error' }],
  },
  {
    name: 'a judge that is down masks the rollouts of a run that holds none',
    fault: DOWN,
    file: 'workflows/rollout.ts',
    before: '(context.input.holds || alwaysHolds)',
    after: 'context.input.holds',
    tests: [{ file: BUDGETS_TEST, test: 'a judge that is down pauses the run and masks nothing', hangs: true }],
  },
  {
    name: 'an answered question is asked again',
    fault: KILLED,
    file: 'activities/ask.ts',
    before: '(await store.get<AskRecord>(key)) ?? (await',
    after: '(await',
    tests: [{ file: ASK_TEST, test: 'costs no second question, and the call counts once' }],
  },
  {
    name: 'what a judge may use is not looked at',
    fault: SPENT,
    file: 'activities/budgets.ts',
    before: 'if (asked && ofJudge)',
    after: 'if (!asked && ofJudge)',
    tests: [{ file: ASK_TEST, test: 'budget ends its questions' }],
  },
  {
    name: 'the time of a judge’s calls is no part of what it used',
    fault: SPENT,
    file: 'protocol/budget.ts',
    before: 'hours: seconds / SECONDS_PER_HOUR',
    after: 'hours: 0',
    tests: [{ file: ASK_TEST, test: 'a judge’s hours are the time of its calls' }],
  },
];
