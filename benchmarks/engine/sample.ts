/** `bench sample`: tokens per second at one batch size, against transformers' `generate`, round by round. */

import { type BenchModel, median, randomIds } from './bench-models.ts';
import { withPair } from './pair.ts';

export interface SampleBenchOptions {
  readonly model: BenchModel;
  /** Prompts per round, sampled at once. */
  readonly batch: number;
  readonly promptTokens: number;
  readonly newTokens: number;
  readonly rounds: number;
  readonly note: (line: string) => void;
}

interface Sampled {
  readonly seconds: number;
  readonly tokens: number;
}

const speedOf = (rounds: readonly Sampled[]): number => median(rounds.map(({ seconds, tokens }) => tokens / seconds));

/** The first round, which loads and compiles, is not counted. */
export async function benchSample({ model, batch, promptTokens, newTokens, rounds, note }: SampleBenchOptions) {
  return withPair(model, note, async ({ own, peer, name, parameters, vocabulary, cores }) => {
    const [ours, theirs]: [Sampled[], Sampled[]] = [[], []];
    for (let round = 0; round <= rounds; round += 1) {
      const given = { prompts: randomIds(batch, promptTokens, vocabulary, `sample ${round}`), tokens: newTokens };
      const [mine, its] = [await own.call<Sampled>('sample', given), await peer.call<Sampled>('sample', given)];
      if (round === 0) continue;
      ours.push(mine);
      theirs.push(its);
      note(
        `bench   ${model} round ${round} of ${rounds}: ${(mine.tokens / mine.seconds).toFixed(0)} tokens/s, ` +
          `peer ${(its.tokens / its.seconds).toFixed(0)}`,
      );
    }
    const tokensPerSecond = speedOf(ours);
    const peerSpeed = speedOf(theirs);
    return {
      model,
      parameters,
      batch,
      promptTokens,
      newTokens,
      cores,
      tokensPerSecond,
      peer: { name, tokensPerSecond: peerSpeed },
      ratio: tokensPerSecond / peerSpeed,
    };
  });
}
