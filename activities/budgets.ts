/**
 * Before each model call: what the run and the judge have used must be less than their budgets. Calls that run already
 * when a budget is reached end and count, so what is used may exceed it by the calls of one moment.
 */

import { type Budget, NOTHING_SPENT, reached, type Spent } from '../protocol/budget.ts';
import { type Budgets, budgetsOf } from '../reports/budgets.ts';
import { byJudge, SpendingLedger, sumOf } from '../reports/spending.ts';
import type { Store } from '../store/store.ts';
import { BudgetSpent } from './failures.ts';

/** One for each store of this process. */
const ledgers = new WeakMap<object, SpendingLedger>();

function ledgerOf(store: Store): SpendingLedger {
  const known = ledgers.get(store) ?? new SpendingLedger(store);
  ledgers.set(store, known);
  return known;
}

export interface AskedJudge {
  readonly judge: string;
  /** As the rollout was started with. It counts if the run has no record, as a single rollout. */
  readonly budget?: Budget | undefined;
}

const isLimited = (budget: Budget = {}): boolean => Object.keys(budget).length > 0;

function refuseSpent(run: string, setting: string, budget: Budget, spent: Spent, isRecorded: boolean): void {
  const out = reached(budget, spent);
  if (out === undefined) return;
  const { field, most } = out;
  const used = field === 'tokens' ? out.used : Number(out.used.toPrecision(6));
  const name = `${setting}.${field}`;
  const remedy = isRecorded
    ? `npx longhaul set ${run} ${name}=${most * 2}, then npx longhaul resume ${run}`
    : `cancel it (npx longhaul cancel ${run}), and start another rollout with a higher one`;
  throw new BudgetSpent(`${run} has used ${used} of ${name}, which is ${most}: ${remedy}`);
}

/** `asked`: the judge that is called. Absent: the policy is. Errors: `BudgetSpent`. */
export async function checkBudget(run: string, store: Store, asked?: AskedJudge): Promise<void> {
  const single: Budgets = { budget: {}, judges: asked?.budget ? { [asked.judge]: asked.budget } : {} };
  const recorded = await budgetsOf(run, store);
  const { budget: ofRun, judges } = recorded ?? single;
  // The workflow counts the run's own hours.
  const { hours: _hours, ...budget } = ofRun;
  const isRecorded = recorded !== undefined;
  const ofJudge = asked && judges[asked.judge];
  if (!isLimited(budget) && !isLimited(ofJudge)) return;
  const spent = await ledgerOf(store).of(run);
  refuseSpent(run, 'budget', budget, sumOf(spent), isRecorded);
  if (asked && ofJudge)
    refuseSpent(
      run,
      `judges.${asked.judge}.budget`,
      ofJudge,
      spent.get(byJudge(asked.judge)) ?? NOTHING_SPENT,
      isRecorded,
    );
}
