/** Hunts a plan that omits a target, or cannot be repeated. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { planKills, TARGETS } from '../../chaos/plan-kills.ts';

const seeds = fc.integer({ min: 0, max: 1_000_000 });

it('is the same for a seed, and another for another', () => {
  expect(planKills(1, 60)).toEqual(planKills(1, 60));
  expect(planKills(1, 60)).not.toEqual(planKills(2, 60));
});

it('of more kills starts with the plan of fewer', () => {
  fc.assert(
    fc.property(seeds, fc.integer({ min: 1, max: 40 }), (seed, n) => {
      expect(planKills(seed, n)).toEqual(planKills(seed, 60).slice(0, n));
    }),
    { numRuns: 30 },
  );
});

it('meets everybody once before anybody again, idle and busy in turn', () => {
  fc.assert(
    fc.property(seeds, fc.boolean(), (seed, ownDocker) => {
      const targets = TARGETS.filter((target) => ownDocker || target !== 'dockerd');
      const plan = planKills(seed, 2 * targets.length, { dockerd: ownDocker, sandboxes: true });
      const [first, second] = [plan.slice(0, targets.length), plan.slice(targets.length)];
      expect(first.map(({ target }) => target).sort()).toEqual([...targets].sort());
      for (const { target, state } of first) {
        if (target !== 'trainer') expect(second.find((other) => other.target === target)?.state).not.toBe(state);
      }
    }),
    { numRuns: 50 },
  );
});

it('names no sandbox where tasks have none', () => {
  const plan = planKills(1, 60, { dockerd: false, sandboxes: false });
  expect(new Set(plan.map(({ target }) => target))).toEqual(
    new Set(TARGETS.filter((target) => !['dockerd', 'sandbox', 'sandbox-supervisor'].includes(target))),
  );
});

it('keeps the server down for 30 s once a round, and nobody else dies while it is gone', () => {
  fc.assert(
    fc.property(seeds, (seed) => {
      const plan = planKills(seed, 60);
      for (const [i, { target, heldMs, together, pauseMs }] of plan.entries()) {
        expect(heldMs).toBe(target === 'temporal-down' ? 30_000 : 0);
        expect(pauseMs).toBeLessThanOrEqual(1500);
        const server = (name: string | undefined) => name === 'temporal' || name === 'temporal-down';
        if (together) expect([server(target), server(plan[i - 1]?.target)]).toEqual([false, false]);
      }
    }),
    { numRuns: 30 },
  );
});
