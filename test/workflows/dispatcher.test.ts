import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { gatesOf, PipelineDispatcher } from '../../workflows/dispatcher.ts';
import type { Stage } from '../../workflows/types.ts';

/** Plays any order of stage ends and failures against the scheduler, and watches every cap. */
function play(rollouts: number, widths: { init: number; agentRun: number; reward: number; live: number }, picks: Iterator<number>) {
  const dispatcher = new PipelineDispatcher({ type: 'pipeline', ...widths, liveSandboxes: widths.live });
  // Some at once, the others as the batch asks for them.
  dispatcher.add(Math.ceil(rollouts / 2));
  let added = Math.ceil(rollouts / 2);
  const inStage = new Map<number, Stage>();
  const entered: Record<Stage, number[]> = { init: [], 'agent-run': [], reward: [] };
  const peak = { init: 0, 'agent-run': 0, reward: 0, live: 0 };
  let guard = 0;
  while (dispatcher.endedCount < rollouts) {
    for (const { rollout, stage } of dispatcher.admissions()) {
      inStage.set(rollout, stage);
      entered[stage].push(rollout);
    }
    for (const stage of ['init', 'agent-run', 'reward'] as const) {
      peak[stage] = Math.max(peak[stage], [...inStage.values()].filter((s) => s === stage).length);
    }
    peak.live = Math.max(peak.live, dispatcher.liveSandboxes);
    const running = [...inStage];
    if (running.length === 0) throw new Error('nothing runs and nothing is admitted: deadlock');
    const pick = picks.next().value as number;
    if (added < rollouts) {
      dispatcher.add(1);
      added += 1;
    }
    const [rollout, stage] = running[pick % running.length]!;
    inStage.delete(rollout);
    if (stage === 'reward' || pick % 7 === 0) dispatcher.ended(rollout);
    else dispatcher.stageEnded(rollout, stage);
    if (++guard > rollouts * 4) throw new Error('a rollout never ends');
  }
  return { entered, peak };
}

const width = fc.integer({ min: 1, max: 6 });

describe('the pipeline dispatcher', () => {
  it('keeps every cap, enters every stage at most once per rollout, and ends them all', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 30 }), width, width, width, width, fc.infiniteStream(fc.nat({ max: 10_000 })),
        (rollouts, init, agentRun, reward, live, picks) => {
          const { entered, peak } = play(rollouts, { init, agentRun, reward, live }, picks);
          expect(entered.init.toSorted((a, b) => a - b)).toEqual(Array.from({ length: rollouts }, (_, i) => i));
          for (const list of Object.values(entered)) expect(new Set(list).size).toBe(list.length);
          expect(peak.init).toBeLessThanOrEqual(init);
          expect(peak['agent-run']).toBeLessThanOrEqual(agentRun);
          expect(peak.reward).toBeLessThanOrEqual(reward);
          expect(peak.live).toBeLessThanOrEqual(live);
        },
      ),
    );
  });

  it('admits the oldest rollouts first', () => {
    const dispatcher = new PipelineDispatcher({ type: 'pipeline', liveSandboxes: 2 });
    dispatcher.add(4);
    expect(dispatcher.admissions()).toEqual([{ rollout: 0, stage: 'init' }, { rollout: 1, stage: 'init' }]);
    dispatcher.ended(1);
    expect(dispatcher.admissions()).toEqual([{ rollout: 2, stage: 'init' }]);
  });

  it('refuses the end of a stage that the rollout is not in', () => {
    const dispatcher = new PipelineDispatcher({ type: 'pipeline', liveSandboxes: 1 });
    dispatcher.add(1);
    expect(() => dispatcher.stageEnded(0, 'agent-run')).toThrow(/is in waiting, not in agent-run/);
  });
});

describe('gates', () => {
  const settings = (over: object) => ({ type: 'pipeline' as const, liveSandboxes: 8, ...over });
  it('are asked for only where a width can bind', () => {
    expect(gatesOf(100, settings({}))).toEqual([]);
    expect(gatesOf(100, settings({ agentRun: 8 }))).toEqual([]);
    expect(gatesOf(100, settings({ agentRun: 4 }))).toEqual(['agent-run']);
    expect(gatesOf(3, settings({ agentRun: 4, reward: 3 }))).toEqual([]);
    expect(gatesOf(100, settings({ init: 2, reward: 9 }))).toEqual(['agent-run', 'reward']);
  });
});
