/** The settings `judges` and `budget` of a run or an eval. A key in a wrong place is refused, and never shown. */

import { z } from 'zod';
import { resolveOptions } from '../modules/options.ts';
import { LONGEST_SECONDS } from '../protocol/limits.ts';
import type { Budget } from '../protocol/budget.ts';
import type { Endpoint } from '../protocol/endpoint.ts';
import type { GivenJudge, Judges } from '../protocol/judge.ts';
import type { ObjectRef } from '../protocol/stages.ts';
import { UserInputError } from '../protocol/user-input-error.ts';
import { environmentNamed } from '../tasks/registry.ts';
import { resolveJudges } from '../workflows/rollout/resolve-judges.ts';

const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null && !Array.isArray(value);

/** `judgesIn` checks them first. */
export const judgesSchema = z.custom<Readonly<Record<string, GivenJudge>>>(isObject).optional();

export const budgetSchema = z
  .strictObject({
    tokens: z.int().min(1).optional(),
    usd: z.number().positive().optional(),
    hours: z
      .number()
      .positive()
      .max(LONGEST_SECONDS / 3600)
      .optional(),
  })
  .optional();

/** The judges of a configuration as it was written. Errors: `UserInputError` for the first that cannot be used. */
export function judgesIn(given: unknown): { readonly judges?: Judges } {
  const judges = isObject(given) ? (given as { readonly judges?: unknown }).judges : undefined;
  if (judges === undefined) return {};
  return {
    judges: resolveJudges(judges, (field, value, remedy) => {
      throw new UserInputError(field, value, remedy);
    }),
  };
}

/** Errors: `UserInputError` for a limit on money if no call of a model has a price. */
export function checkPriced(
  budget: Budget | undefined,
  endpoints: ReadonlyArray<Pick<Endpoint, 'pricePerMillionTokens'>>,
): void {
  if (budget?.usd === undefined || endpoints.some((one) => one.pricePerMillionTokens !== undefined)) return;
  throw new UserInputError(
    'budget.usd',
    budget.usd,
    'leave it out, or give pricePerMillionTokens: { prompt, sampled } of an endpoint: ' +
      'no model of this configuration has a price',
  );
}

/** An environment of a configuration, and its options as they were written. */
export interface AskingEnvironment {
  readonly environment: string;
  readonly options?: unknown;
}

/** Errors: `UserInputError` if an environment declares a judge that is not configured. */
export function checkDeclaredJudges(
  asking: Iterable<AskingEnvironment>,
  judges: Readonly<Record<string, unknown>> | undefined,
  modules: ObjectRef | undefined,
): void {
  const configured = Object.keys(judges ?? {});
  for (const { environment: name, options } of asking) {
    const environment = environmentNamed(name, modules);
    const further = environment.judgesOf?.(resolveOptions(environment, options, 'task.options')) ?? [];
    const missing = [...(environment.judges ?? []), ...further].find((judge) => !configured.includes(judge));
    if (missing === undefined) continue;
    throw new UserInputError(
      'judges',
      configured.length === 0 ? undefined : configured,
      `give judges: { ${missing}: { endpoint: { baseUrl, model } } }: the environment ${name} asks it`,
    );
  }
}
