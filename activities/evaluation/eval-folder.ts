/**
 * The files of an eval's folder, written from the store alone: writing them again gives the same files. `results.json`
 * has the numbers, `rollouts.jsonl` what they were counted from, `pass-at-k.svg` the picture.
 */

import { join } from 'node:path';
import { accountFor } from '../../store/accounting.ts';
import type { Store } from '../../store/store.ts';
import { writeAside } from '../write-aside.ts';
import { failureOf, membersOf } from './cell-members.ts';
import type { ResolvedPolicy } from './sweep/policy-reference.ts';
import { type CellResult, type EvalEnd, evalKeys, type EvalRecord, type EvalRound, evalRun } from './eval-records.ts';
import { passAtKPlot } from './pass-at-k-plot.ts';
import { taskIdsOf } from './sweep/sweep-config.ts';

function told(resolved: ResolvedPolicy) {
  if ('endpoint' in resolved) return resolved;
  const { name, policy, ref, from, fingerprint } = resolved;
  return { name, policy, ...ref, ...(from ? { from } : {}), fingerprint };
}

/** The document of `results.json`, from the store; `undefined` for an eval that is not there. */
export async function evalResultsOf(id: string, store: Store) {
  const record = await store.get<EvalRecord>(evalKeys.record(id));
  if (!record) return undefined;
  const { config, policies, startedAt, evalDir } = record;
  const rounds = (await store.list<EvalRound>(`eval-round:${id}/`)).length;
  const end = await store.get<EvalEnd>(evalKeys.end(id, rounds));
  const latest = new Map<string, CellResult>();
  for (const { value } of await store.list<CellResult>(`eval-cell:${id}/`)) latest.set(value.cell, value);
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
    policies: policies.map(told),
    sampling: config.sampling,
    confidence: config.bootstrap.confidence,
    cells: policies.flatMap((policy) => config.sampling.flatMap(({ name }) => latest.get(`${policy.name}/${name}`) ?? [])),
    accounting: accountFor(await store.events(evalRun(id)), end !== undefined),
  };
}

export type EvalResults = NonNullable<Awaited<ReturnType<typeof evalResultsOf>>>;

async function rolloutLines({ eval: id, config, policies }: EvalRecord, store: Store): Promise<string[]> {
  const tasks = taskIdsOf(config.tasks);
  const lines: string[] = [];
  for (const { name: policy } of policies) {
    for (const { name: sampling, samples } of config.sampling) {
      for (const member of await membersOf(id, `${policy}/${sampling}`, tasks, samples, store)) {
        if (!member.outcome) continue;
        const { rollout, reward, passed, turns, finish, reason } = member.outcome;
        const line = { policy, sampling, task: member.task, sample: member.sample, rollout, reward, passed, failure: failureOf(member) ?? null, turns, finish, reason };
        lines.push(`${JSON.stringify(line)}\n`);
      }
    }
  }
  return lines;
}

/** Writes `results.json` and, once the sweep has ended, the other files. */
export async function writeEvalFiles(id: string, store: Store): Promise<EvalResults> {
  const record = await store.get<EvalRecord>(evalKeys.record(id));
  const results = await evalResultsOf(id, store);
  if (!record || !results) throw new Error(`Eval ${id} is not in the store`);
  await writeAside(join(record.evalDir, 'results.json'), `${JSON.stringify(results, null, 2)}\n`);
  if (results.status === 'running') return results;
  await writeAside(join(record.evalDir, 'rollouts.jsonl'), (await rolloutLines(record, store)).join(''));
  if (results.cells.length > 0) await writeAside(join(record.evalDir, 'pass-at-k.svg'), passAtKPlot(results));
  return results;
}
