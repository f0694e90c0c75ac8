import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { initialState, type LoopEvent, type LoopState, reduce, stageOf } from '../../workflows/rollout-loop.ts';

const limits = { maxTurns: 3, maxAttempts: 2 };
const run = (events: readonly LoopEvent[], from: LoopState = initialState) =>
  events.reduce((state, event) => reduce(state, event, limits), from);

const calls: LoopEvent = { type: 'generated', kind: 'calls', calls: 1 };
const finish = (n: number): LoopEvent => ({ type: 'generated', kind: 'finish', calls: n });

describe('the agent loop', () => {
  it('alternates turns until the finish tool, then collects and grades', () => {
    const state = run([
      { type: 'prepared' }, calls, { type: 'acted' }, finish(0), { type: 'collected' },
      { type: 'graded', reward: 1, passed: true },
    ]);
    expect(state).toEqual({ phase: 'graded', attempt: 1, turn: 2, finish: 'finish-tool', reward: 1, passed: true });
  });

  it('runs the calls that stand before finish in the same turn', () => {
    const acting = run([{ type: 'prepared' }, finish(2)]);
    expect(acting).toMatchObject({ phase: 'act', finish: 'finish-tool' });
    expect(reduce(acting, { type: 'acted' }, limits)).toMatchObject({ phase: 'collect', turn: 1 });
  });

  it('stops at the last turn, whether it called or was given a hint', () => {
    const hint: LoopEvent = { type: 'generated', kind: 'hint', calls: 0 };
    expect(run([{ type: 'prepared' }, hint, calls, { type: 'acted' }, calls, { type: 'acted' }])).toMatchObject({
      phase: 'collect', finish: 'max-turns', turn: 3,
    });
    expect(run([{ type: 'prepared' }, hint, hint, hint])).toMatchObject({ phase: 'collect', finish: 'max-turns' });
  });

  it('grades what a full context or a cut response left behind', () => {
    for (const kind of ['context-full', 'response-cut'] as const) {
      expect(run([{ type: 'prepared' }, { type: 'generated', kind, calls: 0 }])).toMatchObject({
        phase: 'collect', finish: kind,
      });
    }
  });

  it('restarts a lost sandbox within its budget, and is never graded for it', () => {
    const lost: LoopEvent = { type: 'failed', failure: 'sandbox-lost', message: 'gone' };
    const again = run([{ type: 'prepared' }, calls, lost]);
    expect(again).toEqual({ phase: 'prepare', attempt: 2, turn: 1 });
    expect(reduce(again, lost, limits)).toMatchObject({ phase: 'failed', failure: 'sandbox-lost', attempt: 2 });
  });

  it('fails with the class of any other failure and without a reward', () => {
    const state = run([{ type: 'prepared' }, { type: 'failed', failure: 'engine-lost', message: 'm' }]);
    expect(state).toMatchObject({ phase: 'failed', failure: 'engine-lost' });
    expect(state.reward).toBeUndefined();
    expect(stageOf(state)).toBe('done');
  });

  it('refuses an event that the phase does not wait for', () => {
    expect(() => reduce(initialState, { type: 'acted' }, limits)).toThrow(/prepare does not wait for acted/);
  });

  it('always ends, within the turns and attempts that the limits allow', () => {
    const answer = fc.constantFrom<LoopEvent>(
      calls, finish(0), finish(1), { type: 'generated', kind: 'hint', calls: 0 },
      { type: 'failed', failure: 'sandbox-lost', message: '' }, { type: 'failed', failure: 'deadline', message: '' },
    );
    fc.assert(
      fc.property(fc.infiniteStream(answer), (stream) => {
        let state = initialState;
        let steps = 0;
        while (stageOf(state) !== 'done') {
          const { value } = stream.next();
          const event: LoopEvent =
            value.type === 'failed' ? value
            : state.phase === 'generate' ? value
            : state.phase === 'prepare' ? { type: 'prepared' }
            : state.phase === 'act' ? { type: 'acted' }
            : state.phase === 'collect' ? { type: 'collected' }
            : { type: 'graded', reward: 1, passed: true };
          state = reduce(state, event, limits);
          expect(state.turn).toBeLessThanOrEqual(limits.maxTurns);
          expect(state.attempt).toBeLessThanOrEqual(limits.maxAttempts);
          steps += 1;
          expect(steps).toBeLessThan(40);
        }
        expect(state.phase === 'graded').toBe(state.reward !== undefined);
      }),
    );
  });
});
