/** Hunts advice that does not fit the run: harder tasks for a policy that solves none, a setting that is on already. */
import { expect, it } from 'vitest';
import { resolveRunConfig } from '../../config/run-config.ts';
import { adviceFor, varyingSettings } from '../../reports/no-group-varied.ts';

const config = resolveRunConfig({ policy: { base: '/p' }, task: { name: 'swe-mini' } }, '/');
const settings = varyingSettings(config, []);

it('says what the rewards were, and the settings as they are now', () => {
  expect(adviceFor([{ passRate: 0 }, { passRate: 0 }], settings)).toEqual([
    expect.stringMatching(/^no rollout passed: give easier tasks/),
    expect.stringMatching(/^raise sampling\.temperature \(now 1\)/),
    expect.stringMatching(/^raise batch\.samples \(now 8\)/),
    expect.stringMatching(/batch\.dynamicSampling/),
  ]);
  expect(adviceFor([{ passRate: 1 }], settings)[0]).toBe('every rollout passed: give harder tasks');
  expect(adviceFor([{ passRate: 1 }, { passRate: 0 }], settings)[0]).toMatch(
    /^give tasks that the policy solves at times/,
  );
  const changes = [
    { field: 'sampling.temperature', to: 0.5 },
    { field: 'sampling.temperature', to: 0 },
  ];
  expect(adviceFor([{ passRate: 0 }], varyingSettings(config, changes))[0]).toMatch(/temperature is 0.*set it to 1/);
});

it('names no setting that is on already, nor any of a run without a known configuration', () => {
  const drawing = {
    ...config,
    batch: { ...config.batch, dynamicSampling: { ...config.batch.dynamicSampling, type: 'filter' as const } },
  };
  expect(adviceFor([{ passRate: 0 }], varyingSettings(drawing, [])).join()).not.toContain('dynamicSampling');
  expect(adviceFor([{ passRate: 0 }], undefined)).toHaveLength(1);
});
