import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { FailureClass } from '../../../protocol/finish-reason.ts';
import { type Frames, OWN_FRAMES } from '../../../protocol/frames.ts';
import { FAILURES } from '../../../protocol/failure-policy.ts';
import {
  collectsWith,
  initialState,
  type LoopEvent,
  type LoopState,
  reduce,
  stageOf,
} from '../../../workflows/rollout/rollout-loop.ts';

const limits = { maxTurns: 3, maxAttempts: 2, maxRestores: 1 };
const run = (events: readonly LoopEvent[], from: LoopState = initialState) =>
  events.reduce((state, event) => reduce(state, event, limits), from);

const calls: LoopEvent = { type: 'generated', kind: 'act', calls: 1 };
const finish = (n: number): LoopEvent => ({ type: 'generated', kind: 'finish', calls: n });

describe('the agent loop', () => {
  it('alternates turns until the finish tool, then collects and grades', () => {
    const state = run([
      { type: 'prepared' },
      calls,
      { type: 'acted' },
      finish(0),
      { type: 'collected' },
      { type: 'graded', reward: 1, passed: true },
    ]);
    expect(state).toEqual({
      frames: OWN_FRAMES,
      phase: 'graded',
      attempt: 1,
      turn: 2,
      finish: 'finish-tool',
      reward: 1,
      passed: true,
    });
  });

  it('runs the calls that stand before finish in the same turn', () => {
    const acting = run([{ type: 'prepared' }, finish(2)]);
    expect(acting).toMatchObject({ phase: 'act', finish: 'finish-tool' });
    expect(reduce(acting, { type: 'acted' }, limits)).toMatchObject({ phase: 'collect', turn: 1 });
    expect(reduce(acting, { type: 'acted', collected: true }, limits)).toEqual({
      frames: OWN_FRAMES,
      phase: 'grade',
      attempt: 1,
      turn: 1,
      finish: 'finish-tool',
    });
  });

  it('has not finished if a call before finish was refused', () => {
    const acting = run([{ type: 'prepared' }, finish(1)]);
    expect(reduce(acting, { type: 'acted', unfinished: true }, limits)).toEqual({
      frames: OWN_FRAMES,
      phase: 'generate',
      attempt: 1,
      turn: 2,
    });
    const last = run([{ type: 'prepared' }, calls, { type: 'acted' }, calls, { type: 'acted' }, finish(1)]);
    expect(reduce(last, { type: 'acted', unfinished: true }, limits)).toEqual({
      frames: OWN_FRAMES,
      phase: 'collect',
      attempt: 1,
      turn: 3,
      finish: 'max-turns',
    });
  });

  it('collects the artifact with the turn that must or may be the last, and with no other', () => {
    const acting = (turn: number, kind: LoopEvent): LoopState =>
      reduce({ ...initialState, phase: 'generate', turn }, kind, limits);
    expect(collectsWith(acting(1, calls), limits)).toBeUndefined();
    expect(collectsWith(acting(1, finish(1)), limits)).toBe('if-finished');
    expect(collectsWith(acting(3, calls), limits)).toBe('always');
    expect(collectsWith(acting(3, finish(1)), limits)).toBe('always');
    expect(reduce(acting(3, calls), { type: 'acted', collected: true }, limits)).toMatchObject({
      phase: 'grade',
      finish: 'max-turns',
    });
    expect(() => reduce(acting(1, calls), { type: 'acted', collected: true }, limits)).toThrow(TypeError);
  });

  it('stops at the last turn, whether it called or was given a hint', () => {
    const hint: LoopEvent = { type: 'generated', kind: 'reply', calls: 0 };
    expect(run([{ type: 'prepared' }, hint, calls, { type: 'acted' }, calls, { type: 'acted' }])).toMatchObject({
      phase: 'collect',
      finish: 'max-turns',
      turn: 3,
    });
    expect(run([{ type: 'prepared' }, hint, hint, hint])).toMatchObject({ phase: 'collect', finish: 'max-turns' });
  });

  describe('of sub-agents and summaries', () => {
    const frames = (...names: readonly string[]): Frames => [
      ...OWN_FRAMES,
      ...names.map((name) => ({ name, segment: 1 })),
    ];
    const calling = (n = 0): LoopEvent => ({ type: 'generated', kind: 'delegate', calls: n, agent: 'shopper' });
    const many = { ...limits, maxTurns: 9 };
    const from = (turn: number, ...names: readonly string[]): LoopState => ({
      ...initialState,
      phase: 'generate',
      turn,
      frames: frames(...names),
    });

    it('lets a sub-agent work in the next turns, and continues with its caller when it ends', () => {
      const inside = reduce(from(2), calling(), many);
      expect(inside).toEqual({ phase: 'generate', attempt: 1, turn: 3, frames: frames('shopper@2') });
      const below = reduce(inside, calling(), many);
      expect(below.frames).toEqual(frames('shopper@2', 'shopper@3'));
      for (const kind of ['answer', 'context', 'response-cut', 'refused'] as const) {
        const ended: LoopEvent = { type: 'generated', kind, calls: 0 };
        expect(reduce(below, ended, many)).toEqual({ ...inside, turn: 5 });
        expect(reduce(from(4), ended, many)).toMatchObject({ phase: 'collect', finish: kind });
      }
    });

    it('runs the calls before, and calls no agent if one of them was refused', () => {
      const acting = reduce(from(1), calling(1), many);
      expect(acting).toMatchObject({ phase: 'act', callee: 'shopper', frames: OWN_FRAMES });
      expect(collectsWith(acting, many)).toBeUndefined();
      expect(reduce(acting, { type: 'acted' }, many)).toEqual(from(2, 'shopper@1'));
      expect(reduce(acting, { type: 'acted', unfinished: true }, many)).toEqual(from(2));
      const finishing = reduce(from(2, 'shopper@1'), finish(1), many);
      expect(collectsWith(finishing, many)).toBeUndefined();
      expect(reduce(finishing, { type: 'acted' }, many)).toEqual(from(3));
    });

    it('ends with the last turn, wherever it is, and with the environment', () => {
      expect(reduce(from(9), calling(), many)).toMatchObject({ phase: 'collect', finish: 'max-turns' });
      expect(reduce(from(9, 'shopper@2'), finish(0), many)).toMatchObject({ phase: 'collect', finish: 'max-turns' });
      const acting = reduce(from(4, 'shopper@2'), calls, many);
      expect(reduce(acting, { type: 'acted', done: true }, many)).toMatchObject({ phase: 'collect', finish: 'done' });
    });

    it("keeps the agents of a sandbox's replacement, and forgets them in the next attempt", () => {
      const acting = reduce(from(4, 'shopper@2'), calls, many);
      const restored = run([lost, { type: 'restored' }], acting);
      expect(restored).toEqual({ ...acting, restores: 1 });
      expect(run([lost], restored)).toEqual({ ...initialState, attempt: 2 });
    });

    it("counts the segments of the agent at work, and leaves its caller's alone", () => {
      const summary: LoopEvent = { type: 'generated', kind: 'summarise', calls: 0 };
      const twice = reduce(reduce(from(2, 'shopper@1'), summary, many), summary, many);
      expect(twice.frames).toEqual([...OWN_FRAMES, { name: 'shopper@1', segment: 3 }]);
      expect(reduce(twice, finish(0), many).frames).toEqual(OWN_FRAMES);
      expect(reduce(from(3), summary, limits)).toMatchObject({ phase: 'collect', finish: 'max-turns' });
    });
  });

  it('lets the environment answer a message like a call, and ends with the answer', () => {
    const step: LoopEvent = { type: 'generated', kind: 'step', calls: 0 };
    expect(run([{ type: 'prepared' }, step])).toEqual({ frames: OWN_FRAMES, phase: 'act', attempt: 1, turn: 1 });
    expect(run([{ type: 'prepared' }, step, { type: 'acted' }])).toMatchObject({ phase: 'generate', turn: 2 });
    expect(run([{ type: 'prepared' }, { type: 'generated', kind: 'answer', calls: 0 }])).toEqual({
      frames: OWN_FRAMES,
      phase: 'collect',
      attempt: 1,
      turn: 1,
      finish: 'answer',
    });
  });

  it('grades what a full context or a cut response left behind', () => {
    for (const kind of ['context', 'response-cut'] as const) {
      expect(run([{ type: 'prepared' }, { type: 'generated', kind, calls: 0 }])).toMatchObject({
        phase: 'collect',
        finish: kind,
      });
    }
  });

  const lost: LoopEvent = { type: 'failed', failure: 'sandbox-lost', message: 'gone' };

  it.each([
    ['generate', [{ type: 'prepared' }]],
    ['act', [{ type: 'prepared' }, calls, { type: 'acted' }, calls]],
    ['collect', [{ type: 'prepared' }, finish(0)]],
  ] as ReadonlyArray<[string, LoopEvent[]]>)(
    'continues with %s in its turn when its lost sandbox is restored',
    (phase, events) => {
      const before = run(events);
      const restoring = reduce(before, lost, limits);
      expect(restoring).toEqual({ ...before, phase: 'restore', restores: 1, resume: phase });
      expect(reduce(restoring, { type: 'restored' }, limits)).toEqual({ ...before, restores: 1 });
    },
  );

  it('repeats the turns of an attempt that acted before its history started, from the records', () => {
    expect(reduce(run([lost]), { type: 'restored' }, limits)).toEqual({
      frames: OWN_FRAMES,
      phase: 'generate',
      attempt: 1,
      turn: 1,
      restores: 1,
    });
  });

  it('restarts if all restores are used, or one failed, within the limit of attempts, and is never graded for it', () => {
    const spent = run([{ type: 'prepared' }, calls, lost, { type: 'restored' }, lost]);
    expect(spent).toEqual({ frames: OWN_FRAMES, phase: 'prepare', attempt: 2, turn: 1 });
    const other: LoopEvent = { type: 'failed', failure: 'restore-failed', message: 'another digest' };
    expect(run([{ type: 'prepared' }, calls, lost, other])).toEqual({
      frames: OWN_FRAMES,
      phase: 'prepare',
      attempt: 2,
      turn: 1,
    });
    expect(run([other], run([lost], spent))).toEqual({
      frames: OWN_FRAMES,
      phase: 'failed',
      failure: 'restore-failed',
      message: 'another digest',
      attempt: 2,
      turn: 1,
      restores: 1,
    });
  });

  it('has no sandbox to restore while it is graded', () => {
    expect(run([{ type: 'prepared' }, finish(0), { type: 'collected' }, lost])).toMatchObject({
      phase: 'failed',
      failure: 'sandbox-lost',
    });
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

  const failures = Object.keys(FAILURES) as FailureClass[];
  const answer = fc.oneof(
    fc.constantFrom<LoopEvent>(
      calls,
      finish(0),
      finish(1),
      { type: 'generated', kind: 'reply', calls: 0 },
      { type: 'generated', kind: 'step', calls: 0 },
      { type: 'generated', kind: 'answer', calls: 0 },
      { type: 'generated', kind: 'refused', calls: 0 },
    ),
    fc.constantFrom(...failures).map((failure): LoopEvent => ({ type: 'failed', failure, message: '' })),
    fc.constant(lost),
    fc.constant(lost),
  );
  const ok: Readonly<Record<string, LoopEvent>> = {
    prepare: { type: 'prepared' },
    restore: { type: 'restored' },
    act: { type: 'acted' },
    collect: { type: 'collected' },
    grade: { type: 'graded', reward: 1, passed: true },
  };
  const eventIn = (state: LoopState, drawn: LoopEvent) =>
    drawn.type === 'failed' || state.phase === 'generate' ? drawn : (ok[state.phase] ?? drawn);
  const anyLimits = fc.record({
    maxTurns: fc.integer({ min: 1, max: 5 }),
    maxAttempts: fc.integer({ min: 1, max: 4 }),
    maxRestores: fc.integer({ min: 0, max: 4 }),
  });

  it('always ends, within the turns, attempts and restorations that any limits allow, with a reward or a class and never both', () => {
    fc.assert(
      fc.property(fc.infiniteStream(answer), anyLimits, (stream, given) => {
        let state = initialState;
        let steps = 0;
        while (stageOf(state) !== 'done') {
          state = reduce(state, eventIn(state, stream.next().value), given);
          expect(state.turn).toBeLessThanOrEqual(given.maxTurns);
          expect(state.attempt).toBeLessThanOrEqual(given.maxAttempts);
          expect(state.restores ?? 0).toBeLessThanOrEqual(given.maxRestores);
          steps += 1;
          // An attempt: its phases of each turn, and for each lost sandbox one phase that is repeated after a restore.
          expect(steps).toBeLessThanOrEqual(given.maxAttempts * (2 * given.maxTurns + 4 + 2 * given.maxRestores));
        }
        expect(state.phase === 'graded').toBe(state.reward !== undefined);
        expect(state.phase === 'failed').toBe(state.failure !== undefined);
      }),
    );
  });

  it('that loses sandboxes which are all restored does the same as one that loses none', () => {
    const script = fc.array(
      fc.constantFrom<LoopEvent>(calls, finish(0), { type: 'generated', kind: 'reply', calls: 0 }),
      { minLength: 3, maxLength: 3 },
    );
    fc.assert(
      fc.property(script, fc.array(fc.boolean(), { minLength: 30, maxLength: 30 }), (said, losses) => {
        const play = (disturbed: boolean) => {
          const plenty = { maxTurns: 3, maxAttempts: 1, maxRestores: 100 };
          const asked: string[] = [];
          let state = initialState;
          for (let i = 0; stageOf(state) !== 'done'; i += 1) {
            if (disturbed && losses[i] && state.phase !== 'grade' && state.phase !== 'prepare')
              state = reduce(state, lost, plenty);
            else {
              if (state.phase !== 'restore') asked.push(`${state.phase} ${state.turn}`);
              state = reduce(
                state,
                state.phase === 'generate' ? (said[state.turn - 1] ?? calls) : (ok[state.phase] ?? calls),
                plenty,
              );
            }
          }
          const { restores: _, ...end } = state;
          return { asked, end };
        };
        expect(play(true)).toEqual(play(false));
      }),
    );
  });
});
