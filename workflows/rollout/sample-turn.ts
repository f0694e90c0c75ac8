/** Samples a turn where the rollout's policy is, with the settings of the rollout that every turn has. */

import { condition } from '@temporalio/workflow';
import { onEndpoint } from '../activity-stubs.ts';
import type { CallInput, GenerateInput, GenerateOutcome } from '../../protocol/stages.ts';
import { inCode } from '../details.ts';
import { generateNearCache } from './generate-near-cache.ts';
import { isLost, renewalOf } from './hold-sandbox.ts';
import { attemptOf, type Context } from './rollout-context.ts';
import { showLine } from './show-doing.ts';

/** The longest context that the configuration allows. */
export function contextOf({ agent: { maxContextTokens } }: Context['input']): Pick<GenerateInput, 'maxContextTokens'> {
  return maxContextTokens === undefined ? {} : { maxContextTokens };
}

/** The agent that the rollout was started with, if it is not the task's own, and the form of its conversation. */
export function agentOf({ agent }: Context['input']): Pick<GenerateInput, 'agent' | 'conversation' | 'hints'> {
  const { type, options, codec, preamble, reasoning, hints } = agent;
  const conversation = { ...(codec && { codec }), ...(preamble && { preamble }), ...(reasoning && { reasoning }) };
  return {
    ...(type !== undefined && { agent: { type, ...(options && { options }) } }),
    ...(Object.keys(conversation).length > 0 && { conversation }),
    ...(hints && { hints }),
  };
}

/** A server may be down for longer than an unused sandbox lives: the sandbox is renewed meanwhile. */
export async function sampled(attempt: number, context: Context, input: GenerateInput): Promise<GenerateOutcome> {
  if ('uri' in input.policy) return generateNearCache(context, input, context.input.engine);
  const { sandbox } = context;
  if (!sandbox) return onEndpoint.generate(input);
  let over = false;
  const work = onEndpoint.generate(input).finally(() => {
    over = true;
  });
  work.catch(() => undefined);
  // If the sandbox is lost and sampling succeeds, the next tool call detects it.
  while (!(await condition(() => over, renewalOf(sandbox)))) {
    context.rounds += 1;
    if (await isLost(sandbox, attempt, context)) break;
  }
  return work;
}

/**
 * Samples a call of the program, with at most so many tokens. Its noise is that of its prompt: the activity adds it.
 */
export async function sampleCall(
  { attempt }: { readonly attempt: number },
  turn: number,
  call: CallInput,
  tokens: number,
  context: Context,
): Promise<GenerateOutcome> {
  const { input } = context;
  const { maxTurns, maxDepth, maxSegments } = input.agent;
  const outcome = await sampled(attempt, context, {
    ...attemptOf({ attempt }, context),
    limits: { maxTurns, maxDepth, maxSegments },
    turn,
    call,
    policy: input.policy,
    sampling: { ...input.sampling, maxTokens: tokens },
    ...contextOf(input),
    ...agentOf(input),
    noiseKey: `${input.seed}/${input.step}/${input.task}/${input.sample}`,
  });
  context.contextTokens = outcome.contextTokens;
  context.sampledTokens += outcome.sampledTokens;
  context.worker = outcome.worker ?? null;
  showLine(context, `turn ${turn}: ${inCode(outcome.line)}`);
  return outcome;
}
