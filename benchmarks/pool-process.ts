/** One worker of `bench pool`: the engine in its own process; each part of an update is a call, a line of JSON. */

import { createEmbeddedEngine } from '../trainer/embedded/embedded-engine.ts';
import type { Datum, PlanRequest, RoundRequest, ShardRequest } from '../trainer/update-request.ts';
import { noiseOf } from '../trainer/sampler/noise.ts';
import { answerCalls, type Calls } from './engine/answer-calls.ts';

/** The size of generated rollouts: they are generated in this process, since as JSON they would be long lines. */
export interface MadeData {
  readonly rollouts: number;
  readonly tokens: number;
  readonly vocabulary: number;
}

/** Rollouts as in a step: a quarter of the tokens counts, lengths vary by half, groups of four, varied rewards. */
function dataOf({ rollouts, tokens, vocabulary }: MadeData): Datum[] {
  return Array.from({ length: rollouts }, (_, row) => {
    const noise = noiseOf(`pool ${row}`);
    const length = Math.max(8, Math.round(tokens * (0.5 + noise(0))));
    const ids = Array.from({ length }, (_id, at) => Math.floor(noise(at + 1) * vocabulary));
    const mask = ids.map((_id, at) => (at > 0 && at % 4 === 3 ? 1 : 0));
    const credit = { reward: row % 2, group: `g${Math.floor(row / 4)}`, rollout: `r${row}` };
    return { tokens: ids, mask, logprobs: mask.map((counts) => (counts ? -Math.log(vocabulary) : 0)), credit };
  });
}

type Asked = Omit<PlanRequest, 'data'> & { readonly made: MadeData };

const engine = await createEmbeddedEngine();
const calls: Calls = {
  /** Returns the processor seconds so far. */
  used: async () => ({ seconds: (process.cpuUsage().user + process.cpuUsage().system) / 1e6 }),
  update: ({ made, ...request }: Asked) => engine.update({ ...request, data: dataOf(made) }),
  plan: ({ made, ...request }: Asked) => engine.planUpdate({ ...request, data: dataOf(made) }),
  shard: async (given: ShardRequest) => (await engine.forwardBackward(given), {}),
  step: async (given: RoundRequest) => (await engine.optimStep(given), {}),
};

await answerCalls(calls);
process.exit(0);
