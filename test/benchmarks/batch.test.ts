/** Hunts a bench that no longer starts the stack's orchestrator, and batches of it that leave rollouts out. */

import { expect, it } from 'vitest';
import { benchBatch } from '../../benchmarks/batch.ts';

it('measures batches of the real orchestrator', async () => {
  const notes: string[] = [];
  const result = await benchBatch({
    sizes: [4, 8],
    turns: 1,
    type: 'batch',
    width: 4,
    note: (line) => notes.push(line),
  });

  expect(result.batches.map(({ rollouts }) => rollouts)).toEqual([4, 8]);
  for (const { histories, largestHistory, orchestrator } of result.batches) {
    expect(histories).toBe(1);
    expect(largestHistory.events).toBeGreaterThan(4);
    expect(orchestrator.peakMiB).toBeGreaterThan(0);
  }
  expect(notes).toHaveLength(2);
}, 120_000);
