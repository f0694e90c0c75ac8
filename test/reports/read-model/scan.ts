/** What the read model must answer, from a scan of all records, events and executions: slow, and plain to see. */

import { type EvalEnd, evalKeys, type EvalRecord } from '../../../reports/evaluation/eval-records.ts';
import { endOfRun } from '../../../reports/run-end.ts';
import { batchesOf, type OutcomeRecord, type RunRecord, type StepEntry } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { RunTallies, type Tallies } from '../../../reports/run-tally.ts';
import type { RolloutEvent, Store } from '../../../store/store.ts';
import { BATCHES, RUNS } from './histories.ts';

/** Everything that a run's tally says. */
export async function tallyOf(run: string, tallies: Tallies) {
  const { account, times, batchEnds } = await tallies.of(run);
  return {
    running: account.totals(false),
    over: account.totals(true),
    stopped: account.totals(true, true),
    times: times.metrics(BATCHES),
    each: BATCHES.map((batch) => times.metrics([batch])),
    ends: Object.fromEntries(batchEnds),
  };
}

async function runsBy(store: Store) {
  const runs = await store.list<RunRecord>('run:');
  const evals = await store.list<EvalRecord>('eval:');
  const rounds = (await store.list('eval-round:e/')).map(({ key }) => Number(key.slice(-5)));
  const end = await store.get<EvalEnd>(evalKeys.end('e', Math.max(0, ...rounds)));
  return [
    ...(await Promise.all(
      runs.map(async ({ value: { run, startedAt } }) => {
        const its = await endOfRun(run, store);
        return {
          name: run,
          kind: 'run',
          status: its?.status ?? 'running',
          startedAt,
          finishedAt: its?.finishedAt ?? null,
        };
      }),
    )),
    ...evals.map(({ value: { startedAt } }) => ({
      name: 'eval/e',
      kind: 'eval',
      status: end?.status ?? 'running',
      startedAt,
      finishedAt: end?.finishedAt ?? null,
    })),
  ].toSorted((a, b) => (a.startedAt < b.startedAt ? -1 : 1));
}

async function stepsBy(store: Store): Promise<Map<string, number>> {
  const steps = new Map<string, number>();
  for (const { key, value } of await store.list<StepEntry>('step:'))
    for (const batch of batchesOf(value.record)) steps.set(`${key.split(/[:/]/u)[1]}/${batch}`, value.record.step);
  return steps;
}

const first = (events: readonly RolloutEvent[], name: string) => events.find(({ event }) => event === name)?.at ?? null;

async function rolloutsBy(store: Store) {
  const steps = await stepsBy(store);
  const known = new Set((await store.list<RunRecord>('run:')).map(({ value }) => value.run));
  if ((await store.get(evalKeys.record('e'))) !== undefined) known.add('eval/e');
  const outcomes = new Map(
    (await store.list<OutcomeRecord>(keys.outcome(''))).map(({ value }) => [value.rollout, value]),
  );
  const events = (await Promise.all(RUNS.map((run) => store.events(run)))).flat();
  const ids = [...new Set([...outcomes.keys(), ...events.map(({ rollout }) => rollout)])].toSorted();
  return ids.map((rollout) => {
    const its = events.filter((event) => event.rollout === rollout);
    const outcome = outcomes.get(rollout);
    const parts = rollout.split('/');
    const run = parts[0] === 'train' ? parts[1]! : parts[0] === 'eval' ? 'eval/e' : rollout;
    const end = its.find(({ event }) => ['trained', 'masked', 'dropped', 'evaluated'].includes(event));
    const task = outcome?.task ?? (parts.length > 4 ? parts.at(-2)! : null);
    const turns = its.flatMap(({ event, detail }) => (event === 'turn' ? [Number(detail)] : []));
    const batch = parts[2] ?? '';
    const named = /^step-(\d)$/u.exec(batch)?.[1];
    return {
      rollout,
      run,
      batch,
      step: steps.get(`${run}/${batch}`) ?? (named === undefined ? null : Number(named)),
      task,
      // A run's sources are known with its record; a single rollout's with its outcome.
      source:
        task === null || (run !== rollout && !known.has(run)) ? null : task.startsWith('other') ? 'other' : 'my-own',
      attempt: outcome?.attempt ?? Math.max(1, ...its.map(({ attempt }) => attempt)),
      turns: outcome?.turns ?? Math.max(0, ...turns),
      restores: its.filter(({ event }) => event === 'restored').length,
      status: outcome?.status ?? 'running',
      reward: outcome?.reward ?? null,
      passed: outcome?.passed ?? null,
      finish: outcome?.finish ?? null,
      failure: outcome?.failure ?? null,
      firstAt: its[0]?.at ?? null,
      dispatchedAt: first(its, 'dispatched'),
      startedAt: first(its, 'started'),
      gradedAt: first(its, 'graded'),
      ended: end?.event ?? null,
      endedAt: end?.at ?? null,
      detail: end?.detail ?? null,
    };
  });
}

/** Calls by rollout, without the times of their results, which the store alone knows. */
async function callsBy(store: Store) {
  const calls = new Map<string, { started: string | null; starts: number; isEnded: boolean }>();
  for (const { key, at } of await store.executions(0)) {
    const [, tool, turn] = /^tool:(.*)\/(\d)\/0$/u.exec(key) ?? [];
    const result = tool === undefined ? key.slice('model:'.length) : `answer:${tool}/0000${turn}/0`;
    const { started, starts } = calls.get(result) ?? { started: at, starts: 0 };
    calls.set(result, { started, starts: starts + 1, isEnded: false });
  }
  for (const kind of ['generate:', 'answer:'])
    for (const { key } of await store.list(kind))
      calls.set(key, { ...(calls.get(key) ?? { started: null, starts: 0 }), isEnded: true });
  return Object.fromEntries([...calls].toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

export async function scan(store: Store) {
  const tallies = new RunTallies(store);
  return {
    runs: await runsBy(store),
    rollouts: await rolloutsBy(store),
    calls: await callsBy(store),
    tallies: await Promise.all(RUNS.map((run) => tallyOf(run, tallies))),
  };
}
