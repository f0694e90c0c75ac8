/** The cost of a step's model calls, over all workers that made them: for charts; training does not depend on it. */

import type { GenerateCost } from '../../protocol/sampling.ts';
import type { GenerateRecord } from '../../protocol/records.ts';

/** A call with the tokens of its prompt. */
interface Call {
  readonly cost: GenerateCost;
  readonly prompt: number;
  readonly sampled: number;
}

/** The calls of one rollout. Calls that did not report their cost are left out. */
function callsOf(turns: readonly GenerateRecord[]): Call[] {
  let context = 0;
  return turns.flatMap(({ reset, appended, sampled, cost }) => {
    const prompt = (reset ? 0 : context) + appended.length;
    context = prompt + sampled.length;
    return cost ? [{ cost, prompt, sampled: sampled.length }] : [];
  });
}

/**
 * `rollouts`: the turns of each. Means are over calls; that of the batch size is over sampled tokens. Tokens per second
 * are those of one sequence, while others run beside it. Returns no metrics if no call reported its cost.
 */
export function samplerMetrics(rollouts: ReadonlyArray<readonly GenerateRecord[]>): Record<string, number> {
  const calls = rollouts.flatMap(callsOf);
  const sum = (value: (call: Call) => number): number => calls.reduce((total, call) => total + value(call), 0);
  const [prompt, sampled, seconds] = [
    sum((call) => call.prompt),
    sum((call) => call.sampled),
    sum(({ cost }) => cost.seconds),
  ];
  if (calls.length === 0) return {};
  return {
    'sampler/calls': calls.length,
    'sampler/cache_hit_rate': sum(({ cost }) => cost.cachedTokens) / Math.max(1, prompt),
    'sampler/batch_size': sum(({ cost, sampled: tokens }) => cost.batchSize * tokens) / Math.max(1, sampled),
    'sampler/queue_seconds': sum(({ cost }) => cost.queueSeconds) / calls.length,
    'sampler/seconds': seconds / calls.length,
    'sampler/tokens_per_second': seconds > 0 ? sampled / seconds : 0,
  };
}
