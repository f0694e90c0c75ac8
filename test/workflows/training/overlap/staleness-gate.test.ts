/**
 * Hunts staleness beyond its bound, deadlock, and units that are lost or trained on twice, over random ends of units,
 * bounds and widths. Not asserted: how long anything takes (`bench async`).
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  StalenessGate,
  type StalenessLimits,
  NOTHING_BEGUN,
} from '../../../../workflows/training/overlap/staleness-gate.ts';
import type { Unit } from '../../../../protocol/admission.ts';

const dir = (version: number) => ({ uri: `file:///v${version}`, version });

interface Setting {
  readonly perStep: number;
  readonly limits: StalenessLimits;
  /** The running unit that ends next, and whether an update ends before it. */
  readonly choices: ReadonlyArray<{
    readonly which: number;
    readonly trainFirst: boolean;
    readonly maxStaleness: number;
  }>;
}

const settings: fc.Arbitrary<Setting> = fc.record({
  perStep: fc.integer({ min: 1, max: 5 }),
  limits: fc.record({
    steps: fc.integer({ min: 1, max: 8 }),
    maxStaleness: fc.integer({ min: 0, max: 4 }),
    parallel: fc.integer({ min: 1, max: 12 }),
  }),
  choices: fc.array(
    fc.record({ which: fc.nat(), trainFirst: fc.boolean(), maxStaleness: fc.integer({ min: 0, max: 4 }) }),
    { minLength: 1, maxLength: 60 },
  ),
});

interface Trained {
  readonly step: number;
  readonly unit: Unit;
}

interface Driven {
  readonly trained: readonly Trained[];
  /** Units started before each update, by the version that they could start with. */
  readonly begunAt: readonly number[];
  readonly left: number;
}

/** Runs a whole run by `choices`; `reload`: through JSON after every event; `moving`: the bound changes during the run. */
function drive({ perStep, limits, choices }: Setting, { reload = false, moving = false } = {}): Driven {
  let admission = new StalenessGate(perStep);
  let version = 0;
  let training = false;
  const trained: Trained[] = [];
  const begunAt: number[] = [];
  for (let at = 0; version < limits.steps; at += 1) {
    const { which, trainFirst, maxStaleness } = choices[at % choices.length]!;
    admission.admit(dir(version), moving ? { ...limits, maxStaleness } : limits);
    begunAt[version] = admission.state.begun;
    const { running } = admission.state;
    if (!training && admission.isReady(version + 1)) {
      trained.push(...admission.take(version + 1).map((unit) => ({ step: version + 1, unit })));
      training = true;
    }
    if (training && (trainFirst || running.length === 0)) {
      admission.trained();
      version += 1;
      training = false;
      if (reload) admission = new StalenessGate(perStep, JSON.parse(JSON.stringify(admission.state)));
    } else if (running.length > 0) admission.end(running[which % running.length]!.number);
    else if (!training) throw new Error(`deadlock at version ${version}: ${JSON.stringify(admission.state)}`);
  }
  const { running, ended } = admission.state;
  return { trained, begunAt, left: running.length + ended.length };
}

describe('admission', () => {
  it('never trains on a unit beyond the bound, trains on each once, and on as many as the run has room for', () => {
    fc.assert(
      fc.property(settings, (setting) => {
        const { trained, left } = drive(setting);
        const { perStep, limits } = setting;
        for (const { step, unit } of trained)
          expect(step - 1 - unit.policy.version).toBeLessThanOrEqual(limits.maxStaleness);
        expect(trained.map(({ unit }) => unit.number).sort((a, b) => a - b)).toEqual(
          Array.from({ length: perStep * limits.steps }, (_, i) => i + 1),
        );
        expect(left).toBe(0);
      }),
      { numRuns: 500 },
    );
  });

  it('starts no more than (version + bound + 1) × units per step', () => {
    fc.assert(
      fc.property(settings, (setting) => {
        const { perStep, limits } = setting;
        for (const [version, begun] of drive(setting).begunAt.entries())
          expect(begun).toBeLessThanOrEqual((version + limits.maxStaleness + 1) * perStep);
      }),
    );
  });

  it('keeps for each unit the bound that it started under if the bound changes', () => {
    fc.assert(
      fc.property(settings, (setting) => {
        for (const { step, unit } of drive(setting, { moving: true }).trained)
          expect(step).toBeLessThanOrEqual(unit.lastStep);
      }),
      { numRuns: 500 },
    );
  });

  it('is the same after a restart, and for the same order of events', () => {
    fc.assert(
      fc.property(settings, (setting) => {
        expect(drive(setting, { reload: true })).toEqual(drive(setting));
      }),
    );
  });

  it('with a bound of 0 starts nothing while an update runs', () => {
    const admission = new StalenessGate(2);
    const limits = { steps: 9, maxStaleness: 0, parallel: 9 };
    expect(admission.admit(dir(0), limits)).toHaveLength(2);
    admission.end(1);
    admission.end(2);
    admission.take(1);
    expect(admission.admit(dir(0), limits)).toEqual([]);
    admission.trained();
    expect(admission.admit(dir(1), limits)).toHaveLength(2);
  });

  it('takes the units that ended first, but waits for those that no later step may take', () => {
    const admission = new StalenessGate(1);
    const limits = { steps: 9, maxStaleness: 1, parallel: 2 };
    expect(admission.admit(dir(0), limits).map(({ number }) => number)).toEqual([1, 2]);
    admission.end(2);
    expect(admission.take(1).map(({ number }) => number)).toEqual([2]);
    admission.trained();
    expect(admission.admit(dir(1), limits).map(({ number }) => number)).toEqual([3]);
    admission.end(3);
    expect(admission.isReady(2)).toBe(false);
    admission.end(1);
    expect(admission.take(2).map(({ number }) => number)).toEqual([1]);
  });

  it('with only the units that the next step lacks, that step gets ready, and none is left for the one after', () => {
    fc.assert(
      fc.property(settings, fc.nat(40), ({ perStep, limits, choices }, before) => {
        const admission = new StalenessGate(perStep);
        for (let at = 0; at < before && !admission.isReady(1); at += 1) {
          admission.admit(dir(0), limits);
          const { running } = admission.state;
          admission.end(running[choices[at % choices.length]!.which % running.length]!.number);
        }
        const { begun } = admission.state;
        while (!admission.isReady(1)) {
          admission.admit(dir(0), limits, admission.lacking);
          admission.end(admission.state.running[0]?.number ?? expect.fail('nothing runs'));
        }
        expect(admission.state.begun).toBe(Math.max(begun, perStep));
      }),
    );
  });

  it('ignores a repeated end, and the end of an unknown unit', () => {
    const admission = new StalenessGate(1);
    admission.admit(dir(0), { steps: 2, maxStaleness: 0, parallel: 1 });
    admission.end(1);
    admission.end(1);
    admission.end(7);
    expect(admission.state.ended).toHaveLength(1);
    expect(() => new StalenessGate(1, NOTHING_BEGUN).take(1)).toThrow(TypeError);
  });
});
