import { describe, expect, it } from 'vitest';
import { type Acquired, SlotTable } from '../../../trainer/sampler/slot-table.ts';

const ids = (from: number, count: number): number[] => Array.from({ length: count }, (_, i) => from + i);

function acquired(result: ReturnType<SlotTable['acquire']>): Acquired {
  if (typeof result === 'string') throw new Error(`no slot: ${result}`);
  return result;
}

/** Runs a whole sequence through a slot. */
function run(table: SlotTable, policy: string, key: string, tokens: readonly number[]): Acquired {
  const result = acquired(table.acquire(policy, key, tokens));
  result.slot.cached = tokens.length;
  table.release(result.slot);
  return result;
}

describe('SlotTable', () => {
  it('gives a rollout its slot back with the longest common prefix, the last token left to compute', () => {
    const table = new SlotTable(3);
    const first = run(table, 'p', 'a', ids(0, 50));
    const again = acquired(table.acquire('p', 'a', [...ids(0, 40), 999, ...ids(41, 30)]));
    expect(again.slot.index).toBe(first.slot.index);
    expect(again.slot.cached).toBe(40);
    table.forget(again.slot);
    run(table, 'p', 'a', ids(0, 50));
    expect(acquired(table.acquire('p', 'a', ids(0, 50))).slot.cached).toBe(49);
  });

  it('does not reuse what another policy computed', () => {
    const table = new SlotTable(1);
    run(table, 'version 1', 'a', ids(0, 50));
    expect(acquired(table.acquire('version 2', 'a', ids(0, 60))).slot.cached).toBe(0);
  });

  it('finds a prefix in the slot of another rollout, running or not', () => {
    const table = new SlotTable(3);
    const donor = acquired(table.acquire('p', 'a', ids(0, 100)));
    donor.slot.cached = 100;
    const copy = acquired(table.acquire('p', 'b', [...ids(0, 80), ...ids(500, 20)]));
    expect(copy.copyFrom).toBe(donor.slot);
    expect(copy.slot).not.toBe(donor.slot);
    expect(copy.slot.cached).toBe(80);
  });

  it('asks to wait while a running sequence is computing the prefix, and no longer', () => {
    const table = new SlotTable(3);
    const leader = acquired(table.acquire('p', 'a', ids(0, 100)));
    expect(table.acquire('p', 'b', ids(0, 100))).toBe('soon');
    leader.slot.cached = 100;
    expect(acquired(table.acquire('p', 'b', ids(0, 100))).slot.cached).toBe(99);
  });

  it('evicts what was used longest ago, never what is running', () => {
    const table = new SlotTable(2);
    const a = run(table, 'p', 'a', ids(0, 20));
    const b = acquired(table.acquire('p', 'b', ids(1000, 20)));
    const c = acquired(table.acquire('p', 'c', ids(2000, 20)));
    expect(c.slot.index).toBe(a.slot.index);
    expect(table.acquire('p', 'd', ids(3000, 20))).toBe('full');
    table.release(b.slot);
    expect(acquired(table.acquire('p', 'd', ids(3000, 20))).slot.index).toBe(b.slot.index);
  });

  it('trusts nothing of a slot whose pass failed', () => {
    const table = new SlotTable(1);
    const { slot } = acquired(table.acquire('p', 'a', ids(0, 50)));
    slot.cached = 30;
    table.forget(slot);
    expect(acquired(table.acquire('p', 'a', ids(0, 50))).slot.cached).toBe(0);
  });
});
