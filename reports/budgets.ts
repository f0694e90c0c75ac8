/** The budgets of a run or an eval, as they are now: those of its configuration, with the changes on the live run. */

import type { Budget } from '../protocol/budget.ts';
import type { GivenJudge } from '../protocol/judge.ts';
import type { RunRecord } from '../protocol/records.ts';
import { keys } from '../protocol/record-keys.ts';
import type { ConfigChange } from '../protocol/run-config.ts';
import type { Store } from '../store/store.ts';
import { evalKeys, type EvalRecord } from './evaluation/eval-records.ts';

export interface Budgets {
  readonly budget: Budget;
  /** By judge. */
  readonly judges: Readonly<Record<string, Budget>>;
}

interface Budgeted {
  readonly budget?: Budget;
  readonly judges?: Readonly<Record<string, Pick<GivenJudge, 'budget'>>>;
}

const FIELD = /^(?:judges\.(?<judge>[^.]+)\.)?budget\.(?<field>tokens|usd|hours)$/;

/** `config` with the budgets that `changes` set, oldest first. */
export function budgetsIn({ budget = {}, judges = {} }: Budgeted, changes: readonly ConfigChange[]): Budgets {
  const ofJudges = Object.fromEntries(Object.entries(judges).map(([name, judge]) => [name, judge.budget ?? {}]));
  return changes.reduce<Budgets>(
    (now, { field: name, to }) => {
      const { judge, field } = FIELD.exec(name)?.groups ?? {};
      if (field === undefined) return now;
      if (judge === undefined) return { ...now, budget: { ...now.budget, [field]: to } };
      return { ...now, judges: { ...now.judges, [judge]: { ...now.judges[judge], [field]: to } } };
    },
    { budget, judges: ofJudges },
  );
}

const EVAL = 'eval/';

/** `run`: an eval as `eval/ID`. `undefined` for a single rollout, which has no record. */
export async function budgetsOf(run: string, store: Pick<Store, 'get' | 'list'>): Promise<Budgets | undefined> {
  const record = run.startsWith(EVAL)
    ? await store.get<EvalRecord>(evalKeys.record(run.slice(EVAL.length)))
    : await store.get<RunRecord>(keys.run(run));
  if (record === undefined) return undefined;
  const changes = await store.list<ConfigChange[]>(keys.changes(run, ''));
  return budgetsIn(
    record.config ?? {},
    changes.flatMap(({ value }) => value),
  );
}
