import { describe, expect, it } from 'vitest';
import { selectTasks } from '../../workflows/select-tasks.ts';

describe('task selection', () => {
  it('goes through the whole pool once per epoch, in another order each time', () => {
    const epoch = (e: number) => Array.from({ length: 5 }, (_, i) => selectTasks(7, e * 5 + i + 1, 20, 4)).flat();
    expect(epoch(0).toSorted((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, i) => i));
    expect(epoch(1).toSorted((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, i) => i));
    expect(epoch(1)).not.toEqual(epoch(0));
  });

  it('is a function of seed and step', () => {
    expect(selectTasks(1, 3, 1000, 8)).toEqual(selectTasks(1, 3, 1000, 8));
    expect(selectTasks(2, 3, 1000, 8)).not.toEqual(selectTasks(1, 3, 1000, 8));
  });
});
