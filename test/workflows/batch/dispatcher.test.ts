/**
 * The dispatcher under any order of stage ends and failures. Hunted: a deadlock, a rollout that never starts or ends, a
 * cap exceeded at any moment, a failure that keeps its place. Not asserted: how good a schedule is (test/cli/bench).
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { beginOrder, scheduleOf } from '../../../workflows/batch/dispatch-schedule.ts';
import { type Caps, Dispatcher, gatesOf } from '../../../workflows/batch/dispatcher.ts';
import type { DispatcherSettings } from '../../../protocol/batch.ts';
import type { Stage } from '../../../protocol/rollout.ts';

const STAGES = ['init', 'agent-run', 'reward'] as const;
const FREE: Caps = { open: Infinity, init: Infinity, 'agent-run': Infinity, reward: Infinity };

/** Plays any order of stage ends and failures, adds rollouts meanwhile, and checks every cap at every moment. */
function play(rollouts: number, caps: Caps, picks: Iterator<number>) {
  let dispatcher = new Dispatcher(caps);
  let added = Math.ceil(rollouts / 2);
  dispatcher.add(Array.from({ length: added }, (_, i) => i));
  const inStage = new Map<number, Stage>();
  const live = new Set<number>();
  const between: number[] = [];
  const entered: Record<Stage, number[]> = { init: [], 'agent-run': [], reward: [] };
  const ended: number[] = [];
  const failedIn = { init: 0, 'agent-run': 0, reward: 0, waiting: 0 };
  while (ended.length < rollouts) {
    for (const { rollout, stage } of dispatcher.admissions()) {
      inStage.set(rollout, stage);
      live.add(rollout);
      between.splice(0, between.length, ...between.filter((other) => other !== rollout));
      entered[stage].push(rollout);
    }
    for (const stage of STAGES)
      expect([...inStage.values()].filter((s) => s === stage).length).toBeLessThanOrEqual(caps[stage]);
    expect(live.size).toBeLessThanOrEqual(caps.open);
    expect(dispatcher.open).toBe(live.size);
    expect(dispatcher.admissions()).toEqual([]);
    if (inStage.size === 0) throw new Error('nothing runs and nothing is admitted: deadlock');
    const pick = picks.next().value as number;
    if (added < rollouts) dispatcher.add([added++]);
    // A long batch may continue in another history at any moment.
    if (pick % 5 === 0)
      dispatcher = new Dispatcher(caps, JSON.parse(JSON.stringify(dispatcher.progress)) as typeof dispatcher.progress);
    expect([...dispatcher.openRollouts].toSorted((a, b) => a - b)).toEqual([...live].toSorted((a, b) => a - b));
    const end = (rollout: number) => {
      dispatcher.ended(rollout);
      live.delete(rollout);
      ended.push(rollout);
    };
    if (pick % 11 === 0 && between.length > 0) {
      failedIn.waiting += 1;
      end(between.shift()!);
      continue;
    }
    const [rollout, stage] = [...inStage][pick % inStage.size]!;
    inStage.delete(rollout);
    if (stage === 'reward' || pick % 7 === 0) {
      failedIn[stage] += 1;
      end(rollout);
    } else {
      dispatcher.stageEnded(rollout, stage);
      between.push(rollout);
    }
  }
  return { entered, ended, failedIn };
}

const width = fc.oneof(fc.integer({ min: 1, max: 6 }), fc.constant(Number.POSITIVE_INFINITY));
const picks = fc.infiniteStream(fc.nat({ max: 10_000 }));
const caps = fc.record({ open: width, init: width, 'agent-run': width, reward: width });
const types: fc.Arbitrary<DispatcherSettings> = fc.oneof(
  fc.constant({ type: 'batch' as const }),
  fc.record({ type: fc.constant('bounded' as const), maxParallelAgents: fc.integer({ min: 1, max: 6 }) }),
  fc.record({
    type: fc.constant('pipeline' as const),
    maxParallelAgents: fc.integer({ min: 1, max: 6 }),
    maxEvalParallelAgents: fc.integer({ min: 1, max: 6 }),
  }),
);

describe('the dispatcher', () => {
  it.each([
    ['any caps', caps],
    ['the caps of every type', types.map((settings) => scheduleOf(settings).caps)],
  ])('keeps %s at every moment, admits every rollout once, and ends them all', (_, given) => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 30 }), given, picks, (rollouts, limits, order) => {
        const { entered, ended } = play(rollouts, limits, order);
        const all = Array.from({ length: rollouts }, (_unused, i) => i);
        // None is overtaken: they start in the order in which they were added.
        expect(entered.init).toEqual(all);
        expect(ended.toSorted((a, b) => a - b)).toEqual(all);
        for (const list of Object.values(entered)) expect(new Set(list).size).toBe(list.length);
      }),
    );
  });

  it('has failures in every stage and between stages in the property above', () => {
    const met = { init: 0, 'agent-run': 0, reward: 0, waiting: 0 };
    let x = 1;
    const numbers = { next: () => ({ value: (x = (x * 48_271) % 2_147_483_647), done: false as const }) };
    const { failedIn } = play(300, { open: 6, init: 3, 'agent-run': 2, reward: 1 }, numbers);
    for (const place of Object.keys(met) as Array<keyof typeof met>) expect(failedIn[place], place).toBeGreaterThan(0);
  });

  it('admits rollouts in the order in which they asked, and later stages before earlier ones', () => {
    const dispatcher = new Dispatcher({ ...FREE, open: 3, 'agent-run': 1 });
    dispatcher.add([4, 2, 7, 1]);
    expect(dispatcher.admissions()).toEqual([
      { rollout: 4, stage: 'init' },
      { rollout: 2, stage: 'init' },
      { rollout: 7, stage: 'init' },
    ]);
    dispatcher.stageEnded(7, 'init');
    dispatcher.stageEnded(4, 'init');
    expect(dispatcher.admissions()).toEqual([{ rollout: 7, stage: 'agent-run' }]);
    dispatcher.stageEnded(7, 'agent-run');
    expect(dispatcher.admissions()).toEqual([
      { rollout: 7, stage: 'reward' },
      { rollout: 4, stage: 'agent-run' },
    ]);
    dispatcher.ended(7);
    expect(dispatcher.admissions()).toEqual([{ rollout: 1, stage: 'init' }]);
  });

  it('admits to agent-run in the order of readiness with as many places for init as for agent-run', () => {
    let now = 0;
    const dispatcher = new Dispatcher({ ...FREE, open: 6, 'agent-run': 2 }, undefined, () => now);
    dispatcher.add([0, 1, 2, 3, 4, 5]);
    expect(dispatcher.admissions()).toHaveLength(6);
    const ready = (at: number, ...rollouts: number[]) => {
      now = at;
      for (const rollout of rollouts) dispatcher.stageEnded(rollout, 'init');
      return dispatcher.admissions().map(({ rollout }) => rollout);
    };
    // On two places 0 takes until 3, 1 until 10, 2 until 5, 3 until 6, 4 until 14 and 5 until 15.
    expect(ready(1, 3)).toEqual([3]);
    expect(ready(2, 2)).toEqual([2]);
    expect([...ready(3, 0), ...ready(5, 5), ...ready(8, 4), ...ready(10, 1)]).toEqual([]);
    const next = () => {
      const inside = [0, 1, 2, 3, 4, 5].find((rollout) => dispatcher.placeOf(rollout) === 'agent-run')!;
      dispatcher.ended(inside);
      return dispatcher.admissions().map(({ rollout }) => rollout);
    };
    expect([next(), next(), next(), next()].flat()).toEqual([0, 1, 4, 5]);
  });

  it('admits rollouts of an earlier history first', () => {
    let now = 0;
    const limits: Caps = { ...FREE, open: 3, 'agent-run': 1 };
    const before = new Dispatcher(limits, undefined, () => now);
    before.add([0, 1, 2]);
    before.admissions();
    before.stageEnded(0, 'init');
    before.admissions();
    before.stageEnded(2, 'init');
    const dispatcher = new Dispatcher(limits, before.progress, () => now);
    dispatcher.add([3]);
    now = 5;
    dispatcher.stageEnded(1, 'init');
    dispatcher.ended(0);
    expect(dispatcher.admissions()).toEqual([
      { rollout: 2, stage: 'agent-run' },
      { rollout: 3, stage: 'init' },
    ]);
    dispatcher.stageEnded(3, 'init');
    dispatcher.ended(2);
    expect(dispatcher.admissions()).toEqual([{ rollout: 1, stage: 'agent-run' }]);
  });

  it('refuses what cannot have happened', () => {
    const dispatcher = new Dispatcher(FREE);
    dispatcher.add([0]);
    expect(() => dispatcher.add([0])).toThrow(/added before/);
    expect(() => dispatcher.stageEnded(0, 'init')).toThrow(/is in waiting, not in init/);
    expect(() => dispatcher.ended(0)).toThrow(/is in waiting and cannot end/);
    expect(dispatcher.admissions().length).toBe(1);
    expect(() => dispatcher.withdrawn(0)).toThrow(/is in init and cannot be withdrawn/);
    dispatcher.ended(0);
    expect(() => dispatcher.ended(0)).toThrow(/is in done and cannot end/);
  });
});

it('a rollout that is withdrawn before it starts takes no place, and those behind it start', () => {
  const dispatcher = new Dispatcher({ ...FREE, open: 1 });
  dispatcher.add([0, 1, 2]);
  expect(dispatcher.admissions()).toEqual([{ rollout: 0, stage: 'init' }]);
  dispatcher.withdrawn(1);
  dispatcher.ended(0);
  expect(dispatcher.admissions()).toEqual([{ rollout: 2, stage: 'init' }]);
  expect(dispatcher.open).toBe(1);
});

describe('gates', () => {
  const gates = (rollouts: number, settings: DispatcherSettings) => gatesOf(rollouts, scheduleOf(settings).caps);
  it('exist only if a width can be reached', () => {
    expect(gates(100, { type: 'batch' })).toEqual([]);
    expect(gates(100, { type: 'bounded', maxParallelAgents: 4 })).toEqual([]);
    expect(gates(100, { type: 'pipeline', maxParallelAgents: 4 })).toEqual(['agent-run', 'reward']);
    expect(gates(4, { type: 'pipeline', maxParallelAgents: 4 })).toEqual([]);
    expect(gates(100, { type: 'pipeline', maxParallelAgents: 4, maxEvalParallelAgents: 12 })).toEqual(['agent-run']);
    expect(gates(4, { type: 'pipeline', maxParallelAgents: 4, maxEvalParallelAgents: 2 })).toEqual(['reward']);
    expect(gatesOf(100, { ...FREE, init: 2 })).toEqual(['agent-run']);
  });
});

describe('the order of starts', () => {
  it('spreads the samples of a task, but not if groups are drawn by need', () => {
    expect(beginOrder({ samples: 2 }, 1, 3, 'task')).toEqual([2, 3, 4, 5]);
    expect(beginOrder({ samples: 2 }, 1, 3, 'sample')).toEqual([2, 4, 3, 5]);
    expect(beginOrder({ samples: 2, wanted: 1 }, 1, 3, 'sample')).toEqual([2, 3, 4, 5]);
  });
});
