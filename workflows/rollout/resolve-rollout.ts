/** A rollout's input with every default filled in; what is wrong is refused before any work starts. */

import { ApplicationFailure } from '@temporalio/common';
import type { SamplingParameters } from '../../protocol/sampling.ts';
import { CODECS } from '../../protocol/conversation.ts';
import { DEFAULT_HINTS } from '../../protocol/hints.ts';
import { LONGEST_SECONDS } from '../../protocol/limits.ts';
import type { Judges } from '../../protocol/judge.ts';
import { resolveJudges } from './resolve-judges.ts';
import { resolvePolicy } from './resolve-policy.ts';
import type { RolloutPolicy } from '../../protocol/policy.ts';
import type { ObjectRef } from '../../protocol/stages.ts';
import {
  type ResolvedAgent,
  DEFAULT_AGENT,
  DEFAULT_SAMPLING,
  type GatedStage,
  type RolloutInput,
} from '../../protocol/rollout.ts';

export interface ResolvedRollout {
  readonly task: string;
  readonly catalog?: ObjectRef;
  readonly policy: RolloutPolicy;
  readonly agent: ResolvedAgent;
  readonly sampling: SamplingParameters;
  readonly judges?: Judges;
  readonly engine?: string;
  readonly run: string;
  readonly step: number;
  readonly sample: number;
  readonly seed: number;
  readonly gates: readonly GatedStage[];
  readonly reportsEnd: boolean;
  readonly holds: boolean;
}

/** Errors: a non-retryable `UserInputError`, always. */
export function refuse(field: string, value: unknown, remedy: string): never {
  const message = `${field}: ${JSON.stringify(value)} cannot be used; ${remedy}`;
  throw ApplicationFailure.nonRetryable(message, 'UserInputError', { field, value, remedy });
}

function positiveInteger(field: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 1) refuse(field, value, 'give a whole number of at least 1');
}

function seconds(field: string, value: number): void {
  if (!(value > 0 && value <= LONGEST_SECONDS))
    refuse(field, value, `give a number of seconds above 0, at most ${LONGEST_SECONDS}`);
}

function oneOf(field: string, value: unknown, known: readonly string[]): void {
  if (value !== undefined && !known.some((one) => one === value)) refuse(field, value, `give ${known.join(', ')}`);
}

function checkConversation({ codec, preamble, reasoning, hints = {} }: ResolvedAgent): void {
  oneOf('agent.codec', codec, CODECS);
  oneOf('agent.preamble', preamble, ['auto', 'always', 'never']);
  oneOf('agent.reasoning', reasoning, ['keep', 'remove']);
  for (const [rule, value] of Object.entries(hints) as ReadonlyArray<readonly [string, unknown]>) {
    const normal = (DEFAULT_HINTS as unknown as Readonly<Record<string, unknown>>)[rule];
    const isNumber = typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
    if (normal === undefined) oneOf('agent.hints', rule, Object.keys(DEFAULT_HINTS));
    if (typeof normal === 'boolean' ? typeof value !== 'boolean' : !isNumber)
      refuse(`agent.hints.${rule}`, value, typeof normal === 'boolean' ? 'give true or false' : 'give a whole number');
  }
}

/** Errors: a non-retryable `UserInputError` that names field, value and remedy. */
export function resolveRollout(input: RolloutInput, workflowId: string): ResolvedRollout {
  if (typeof input?.task !== 'string' || input.task === '') {
    refuse('task', input?.task, 'give a task id such as swe-mini-train-0');
  }
  const policy = resolvePolicy(input.policy, refuse);
  const agent = { ...DEFAULT_AGENT, ...input.agent };
  const sampling = { ...DEFAULT_SAMPLING, ...input.sampling };
  positiveInteger('agent.maxTurns', agent.maxTurns);
  if (agent.maxContextTokens !== undefined) positiveInteger('agent.maxContextTokens', agent.maxContextTokens);
  if (agent.maxSampledTokens !== undefined) positiveInteger('agent.maxSampledTokens', agent.maxSampledTokens);
  positiveInteger('agent.maxDepth', agent.maxDepth);
  positiveInteger('agent.maxSegments', agent.maxSegments);
  positiveInteger('sampling.maxTokens', sampling.maxTokens);
  seconds('agent.toolTimeoutSeconds', agent.toolTimeoutSeconds);
  seconds('agent.deadlineSeconds', agent.deadlineSeconds);
  if (agent.atDeadline !== 'grade' && agent.atDeadline !== 'mask')
    refuse('agent.atDeadline', agent.atDeadline, 'give grade or mask');
  checkConversation(agent);
  if (!(sampling.temperature >= 0)) refuse('sampling.temperature', sampling.temperature, 'give 0 (greedy) or more');
  return {
    task: input.task,
    ...(input.catalog === undefined ? {} : { catalog: input.catalog }),
    policy,
    agent,
    sampling,
    ...(input.judges === undefined ? {} : { judges: resolveJudges(input.judges, refuse) }),
    ...(input.engine === undefined ? {} : { engine: input.engine }),
    run: input.run ?? workflowId,
    step: input.step ?? 0,
    sample: input.sample ?? 0,
    seed: input.seed ?? 0,
    gates: input.gates ?? [],
    reportsEnd: input.reportsEnd ?? false,
    holds: input.holds ?? true,
  };
}
