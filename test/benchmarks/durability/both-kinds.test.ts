/**
 * Hunts a comparison of two different jobs: with a model and sandboxes that do nothing, both kinds request the same
 * turns of the engine, grade the same rollouts and end with the same weights. Not asserted: times.
 */
import { defineEnvironment } from '../../../tasks/registry.ts';
import { expect, it } from 'vitest';
import { STARTER } from '../../../benchmarks/durability/deeper-starter.ts';
import { benchDurability } from '../../../benchmarks/durability/durability.ts';
import { emptyEngine, emptyEnvironment, emptyProvider, emptyTokenizer } from '../../../benchmarks/empty-parts.ts';

it('does the same work with Temporal as in memory', async () => {
  defineEnvironment(emptyEnvironment);
  const asked: string[] = [];
  const engine = emptyEngine(3);
  const generate = engine.generate.bind(engine);
  engine.generate = (request, signal) => {
    asked.push(`${request.cacheKey} ${request.noiseKey}`);
    return generate(request, signal);
  };
  const lines: string[] = [];
  const parts = async () => ({
    task: 'empty',
    base: STARTER,
    engine,
    provider: emptyProvider,
    tokenizerOf: async () => emptyTokenizer,
    close: async () => undefined,
  });
  const document = await benchDurability(
    { blocks: 1, steps: 2, tasks: 2, layers: 4 },
    (line) => lines.push(line),
    parts,
  );
  const of = (kind: string) =>
    asked.flatMap((line) => (line.startsWith(`train/${kind}-0/`) ? [line.replace(`train/${kind}-0/`, '')] : [])).sort();
  expect(of('durable')).toEqual(of('memory'));
  expect(of('memory').length).toBe(2 * 2 * 4 * 3);
  expect(document).toMatchObject({ identical: true, rolloutsPerStep: 8 });
  expect(document.ratio).toBeCloseTo(document.stepsPerSecond.durable / document.stepsPerSecond.inMemory);
  expect(lines.length).toBe(1);
});
