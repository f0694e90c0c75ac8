import { describe, expect, it } from 'vitest';
import { selectTasks } from '../../../workflows/training/select-tasks.ts';

describe('task selection', () => {
  it('draws the whole pool once per epoch, in another order each time', () => {
    const epoch = (e: number) => Array.from({ length: 5 }, (_, i) => selectTasks(7, e * 5 + i + 1, 20, 4)).flat();
    expect(epoch(0).toSorted((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, i) => i));
    expect(epoch(1).toSorted((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, i) => i));
    expect(epoch(1)).not.toEqual(epoch(0));
  });

  it('never draws a task twice in a step, whatever the pool', () => {
    for (let step = 1; step <= 40; step += 1) {
      const tasks = selectTasks(3, step, 11, 4);
      expect(new Set(tasks).size, `step ${step}: ${tasks.join()}`).toBe(4);
    }
    expect(selectTasks(3, 5, 4, 4).toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3]);
  });

  it('is a function of seed and step', () => {
    expect(selectTasks(1, 3, 1000, 8)).toEqual(selectTasks(1, 3, 1000, 8));
    expect(selectTasks(2, 3, 1000, 8)).not.toEqual(selectTasks(1, 3, 1000, 8));
  });
});
