/**
 * Tokens per second of `forward_backward` with an adapter beside its base, in the engine's thread: `node
 * benchmarks/engine/adapters.ts [OTHERS]`. OTHERS idle adapters are in memory meanwhile; they must not change the
 * number.
 */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { AdapterSettings, TinkerPass } from '../../protocol/tinker.ts';
import { createEmbeddedEngine } from '../../trainer/embedded/embedded-engine.ts';
import type { AdapterTrainer } from '../../trainer/tenants/definition.ts';
import { median, randomIds, TINKER_MODEL, writeTinkerModel } from './bench-models.ts';

const SETTINGS: AdapterSettings = { rank: 8, alpha: 16, seed: 1, attention: true, mlp: true, unembed: true };
const ADAM = { learningRate: 1e-4, beta1: 0.9, beta2: 0.95, eps: 1e-12, weightDecay: 0, gradClipNorm: 0 };
const ROUNDS = 20;

function pass(sequences: number, tokens: number, round: number, backward: boolean): TinkerPass {
  const data = randomIds(sequences, tokens + 1, TINKER_MODEL.vocab_size, `adapters ${round}`).map((ids) => ({
    tokens: Int32Array.from(ids.slice(0, -1)),
    targets: Int32Array.from(ids.slice(1)),
  }));
  return { data, loss: 'cross_entropy', config: {}, backward };
}

/** Median milliseconds of a call; the first ones make the graphs. */
async function measure(call: (round: number) => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let round = -3; round < ROUNDS; round++) {
    const begun = performance.now();
    await call(round);
    if (round >= 0) times.push(performance.now() - begun);
  }
  return median(times);
}

async function report(trainer: AdapterTrainer): Promise<void> {
  const say = (name: string, value: number, unit: string): void => console.log(`${name}: ${value.toFixed(1)} ${unit}`);
  const speed = (sequences: number, tokens: number, ms: number): number => (sequences * tokens * 1000) / ms;
  for (const [sequences, tokens] of [
    [8, 128],
    [64, 128],
    [1, 1024],
  ] as const) {
    const ms = await measure((round) => trainer.pass('own', pass(sequences, tokens, round, true)));
    say(`forward_backward ${sequences} × ${tokens}`, speed(sequences, tokens, ms), 'tokens/s');
  }
  const both = await measure((round) =>
    Promise.all([trainer.pass('own', pass(8, 128, round, true)), trainer.optimStep('own', ADAM)]),
  );
  say('forward_backward and optim_step 8 × 128', speed(8, 128, both), 'tokens/s');
  say('forward of 8 tokens', await measure((round) => trainer.pass('own', pass(1, 8, round, false))), 'ms');
}

const scratch = await mkdtemp(path.join(tmpdir(), 'longhaul-adapters-'));
const engine = await createEmbeddedEngine();
try {
  const trainer = engine.tenants(await writeTinkerModel(path.join(scratch, 'tiny')));
  const others = Number(process.argv[2] ?? 0);
  for (let i = 0; i < others; i++) await trainer.create(`other ${i}`, { ...SETTINGS, seed: i });
  await trainer.create('own', SETTINGS);
  console.log(`${others} other adapters in memory`);
  await report(trainer);
} finally {
  await engine.close();
  await rm(scratch, { recursive: true });
}
