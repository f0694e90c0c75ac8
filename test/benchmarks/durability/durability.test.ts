/**
 * `longhaul bench durability` at its smallest: both kinds run the same job to the same weights. Not asserted: the
 * ratio, which depends on the machine (docs/results.md has it).
 */
import { tmpdir } from 'node:os';
import { expect, it } from 'vitest';
import { longhaulJson } from '../../support/cli.ts';

interface Document {
  readonly stepsPerSecond: { readonly durable: number; readonly inMemory: number };
  readonly ratio: number;
  readonly identical: boolean;
}

it('measures the same job with Temporal and in memory', async () => {
  const document = await longhaulJson<Document>(
    ['bench', 'durability', '--blocks', '1', '--steps', '1', '--tasks', '2'],
    tmpdir(),
  );
  const { durable, inMemory } = document.stepsPerSecond;
  expect(document.ratio).toBeCloseTo(durable / inMemory);
  expect(durable).toBeGreaterThan(0);
  expect(document.identical).toBe(true);
});
