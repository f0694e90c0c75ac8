/** Settings of the dispatchers: which ones each type takes, and that others are refused by name, not ignored. */
import { describe, expect, it } from 'vitest';
import { refusedSetting, resolveDispatcher, scheduleOf } from '../../../workflows/batch/dispatch-schedule.ts';
import type { DispatcherSettings } from '../../../protocol/batch.ts';

describe('dispatcher settings', () => {
  it.each([
    [{ type: 'batch', maxParallelAgents: 3 }, 'maxParallelAgents', /no effect with batch.*bounded or pipeline/],
    [
      { type: 'bounded', maxParallelAgents: 3, maxEvalParallelAgents: 2 },
      'maxEvalParallelAgents',
      /no effect with bounded.*choose pipeline/,
    ],
    [{ type: 'pipeline', liveSandboxes: 3 }, 'liveSandboxes', /no effect with pipeline: remove it$/],
    [{ type: 'pipeline', maxParallelAgents: 0 }, 'maxParallelAgents', /at least 1/],
    [{ type: 'async_pipeline' }, 'type', /batch, bounded, pipeline/],
  ] as const)('%j is refused', (settings, field, remedy) => {
    const refused = refusedSetting(settings as DispatcherSettings);
    expect(refused).toMatchObject({ field, value: settings[field as keyof typeof settings] });
    expect(refused?.remedy).toMatch(remedy);
  });

  it('are filled in once, and do not change when they are read again', () => {
    const filled = [
      { type: 'batch' },
      { type: 'bounded' },
      { type: 'pipeline' },
      { type: 'pipeline', maxParallelAgents: 5 },
    ].map((s) => resolveDispatcher(s as DispatcherSettings));
    expect(filled).toEqual([
      { type: 'batch' },
      { type: 'bounded', maxParallelAgents: 32 },
      { type: 'pipeline', maxParallelAgents: 32 },
      { type: 'pipeline', maxParallelAgents: 5 },
    ]);
    for (const settings of filled) {
      expect(refusedSetting(settings)).toBeUndefined();
      expect(resolveDispatcher(settings)).toEqual(settings);
    }
  });

  it('mean caps', () => {
    expect(scheduleOf({ type: 'batch' }).caps).toEqual({
      open: Infinity,
      init: Infinity,
      'agent-run': Infinity,
      reward: Infinity,
    });
    expect(scheduleOf({ type: 'bounded', maxParallelAgents: 4 }).caps).toMatchObject({
      open: 4,
      'agent-run': Infinity,
    });
    expect(scheduleOf({ type: 'pipeline', maxParallelAgents: 4, maxEvalParallelAgents: 2 }).caps).toEqual({
      open: 12,
      init: Infinity,
      'agent-run': 4,
      reward: 2,
    });
  });
});
