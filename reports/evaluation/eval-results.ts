/** The document of `results.json`: an eval's numbers, from the store only. */

import { RunTallies, type Tallies } from '../run-tally.ts';
import { spentOf } from '../spent.ts';
import type { Store } from '../../store/store.ts';
import { type CellResult, type EvalEnd, evalKeys, type EvalRecord, type EvalRound, evalRun } from './eval-records.ts';
import type { ResolvedPolicy } from '../../protocol/eval.ts';

function described(resolved: ResolvedPolicy) {
  if ('endpoint' in resolved) return resolved;
  const { name, policy, ref, from, fingerprint } = resolved;
  return { name, policy, ...ref, ...(from ? { from } : {}), fingerprint };
}

/** `undefined` for an unknown eval. With a `ReadModel` as `tallies`, no event is read. */
export async function evalResultsOf(id: string, store: Store, tallies: Tallies = new RunTallies(store)) {
  const record = await store.get<EvalRecord>(evalKeys.record(id));
  if (!record) return undefined;
  const { config, policies, startedAt, evalDir } = record;
  const rounds = (await store.list<EvalRound>(`eval-round:${id}/`)).length;
  const end = await store.get<EvalEnd>(evalKeys.end(id, rounds));
  const latest = new Map<string, CellResult>();
  for (const { value } of await store.list<CellResult>(`eval-cell:${id}/`)) latest.set(value.cell, value);
  const { account, spending } = await tallies.of(evalRun(id));
  const ends = await store.list<EvalEnd>(evalKeys.ends(id));
  const workedMs = Math.max(0, ...ends.map(({ value }) => value.workedMs ?? 0));
  return {
    eval: id,
    status: end?.status ?? ('running' as const),
    startedAt,
    finishedAt: end?.finishedAt ?? null,
    ...(end?.message ? { message: end.message } : {}),
    rounds,
    workflowId: evalRun(id),
    evalDir,
    seed: config.seed,
    tasks: 'ids' in config.tasks ? { count: config.tasks.ids.length } : config.tasks,
    policies: policies.map(described),
    sampling: config.sampling,
    confidence: config.bootstrap.confidence,
    cells: policies.flatMap((policy) =>
      config.sampling.flatMap(({ name }) => latest.get(`${policy.name}/${name}`) ?? []),
    ),
    /** What it has used of its budgets. */
    spent: await spentOf(evalRun(id), store, spending, workedMs),
    accounting: account.totals(end !== undefined),
  };
}

export type EvalResults = NonNullable<Awaited<ReturnType<typeof evalResultsOf>>>;
