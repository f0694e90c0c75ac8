/** Random histories of a store, as activities write them: rollouts of runs, evals and single ones, with late events. */

import fc from 'fast-check';
import { evalKeys } from '../../../reports/evaluation/eval-records.ts';
import { recordEnds, type RolloutEnd } from '../../../reports/rollout-ends.ts';
import { goOn, recordEndOfRun } from '../../../reports/run-end.ts';
import { keys } from '../../../protocol/record-keys.ts';
import type { RolloutEvent, Store } from '../../../store/store.ts';

export const RUNS = ['a', 'b', 'eval/e', 'rollout/single'] as const;
export const BATCHES = ['step-1', 'step-2', 'group-7', 'eval-0-sampled'] as const;
const TASKS = ['my-own-train-0', 'my-own-train-11', 'my-own-held-out-1', 'other-train-0'] as const;
export const FAILURES = ['internal', 'worker-lost'] as const;
const EVENTS = ['dispatched', 'started', 'restored', 'turn', 'graded'] as const;
const ENDS = ['trained', 'masked', 'dropped', 'evaluated'] as const;

const rollout = fc
  .record({
    run: fc.constantFrom(...RUNS),
    batch: fc.constantFrom(...BATCHES),
    task: fc.constantFrom(...TASKS),
    k: fc.nat(1),
  })
  .map(({ run, batch, task, k }) => ({
    run,
    task,
    rollout: run.startsWith('rollout/')
      ? run
      : run.startsWith('eval/')
        ? `${run}/policy/greedy/${task}/${k}`
        : `train/${run}/${batch}/${task}/${k}`,
  }));

const place = fc.record({
  one: rollout,
  attempt: fc.integer({ min: 1, max: 2 }),
  turn: fc.integer({ min: 1, max: 3 }),
});

/** One thing that is written. */
export const deed = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant('event' as const), place, event: fc.constantFrom(...EVENTS) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('end' as const), place, event: fc.constantFrom(...ENDS) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('outcome' as const),
      place,
      failure: fc.constantFrom(null, null, ...FAILURES),
      reward: fc.constantFrom(0, 0.5, 1),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constantFrom('begin' as const, 'result' as const), place, tool: fc.boolean() }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom(
        'run' as const,
        'run-end' as const,
        'run-again' as const,
        'eval' as const,
        'eval-end' as const,
      ),
      run: fc.constantFrom('a', 'b'),
      n: fc.integer({ min: 1, max: 2 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('step' as const),
      run: fc.constantFrom('a', 'b'),
      n: fc.integer({ min: 1, max: 3 }),
      batches: fc.option(fc.uniqueArray(fc.constantFrom(...BATCHES), { minLength: 1 }), { nil: undefined }),
    }),
  },
);
export type Deed = typeof deed extends fc.Arbitrary<infer T> ? T : never;

let clock = Date.parse('2026-01-01T00:00:00.000Z');
const nextTime = () => new Date((clock += 1_500)).toISOString();

/** Writes `deed` as an activity would. */
export async function perform(one: Deed, store: Store): Promise<void> {
  const at = nextTime();
  switch (one.do) {
    case 'event':
    case 'end': {
      const { attempt, turn, one: at1 } = one.place;
      const event = { run: at1.run, rollout: at1.rollout, attempt, at } as const;
      if (one.do === 'end')
        return recordEnds(store, [{ ...event, event: one.event, detail: `v${turn}` } as RolloutEnd]);
      return store.append([
        { ...event, event: one.event, ...(one.event === 'turn' ? { detail: String(turn) } : {}) } as RolloutEvent,
      ]);
    }
    case 'outcome': {
      const { attempt, turn, one: its } = one.place;
      const status = one.failure === null ? 'graded' : 'failed';
      await store.putOnce(keys.outcome(its.rollout), {
        rollout: its.rollout,
        task: its.task,
        attempt,
        turns: turn,
        status,
        reward: status === 'graded' ? one.reward : null,
        passed: one.reward === 1,
        finish: 'finish',
        failure: one.failure,
        reason: 'so it is',
      });
      return;
    }
    case 'begin':
    case 'result': {
      const { attempt, turn, one: its } = one.place;
      const call = { run: its.run, rollout: its.rollout, attempt, task: its.task };
      const key = one.tool ? keys.answer(call, turn, 0) : keys.generate(call, turn);
      if (one.do === 'result') await store.putOnce(key, { large: 'x' });
      else await store.begin(one.tool ? `tool:${its.rollout}#${attempt}/${turn}/0` : `model:${key}`);
      return;
    }
    case 'run':
      await store.putOnce(keys.run(one.run), {
        run: one.run,
        startedAt: at,
        tasks: { train: [{ source: 'my-own' }], heldOut: [{ source: 'other' }] },
      });
      return;
    case 'run-end':
      if ((await store.get(keys.run(one.run))) === undefined) return;
      return recordEndOfRun(
        one.run,
        { status: one.n === 1 ? 'failed' : 'cancelled', finishedAt: at, message: '', execution: at },
        store,
      );
    case 'run-again':
      await goOn(one.run, `again ${at}`, store);
      return;
    case 'eval': {
      await store.putOnce(evalKeys.record('e'), { eval: 'e', startedAt: at });
      await store.putOnce(evalKeys.round('e', one.n), { startedAt: at });
      return;
    }
    case 'eval-end':
      if ((await store.get(evalKeys.round('e', one.n))) === undefined) return;
      await store.putOnce(evalKeys.end('e', one.n), { status: 'completed', finishedAt: at, message: '' });
      return;
    case 'step':
      await store.putOnce(keys.step(one.run, one.n), {
        record: { step: one.n, ...(one.batches && { batches: one.batches }) },
      });
  }
}
