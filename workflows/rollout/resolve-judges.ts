/**
 * The judges of a configuration or a rollout's input with every default filled in. Pure; the caller's `refuse` rejects
 * what cannot be used. A key that was given by mistake is never printed.
 */

import { LONGEST_SECONDS } from '../../protocol/limits.ts';
import { DEFAULT_JUDGE_SAMPLING, JUDGE_NAME, type Judge, type Judges } from '../../protocol/judge.ts';
import { type Refuse, resolveEndpoint } from './resolve-policy.ts';

const HIDDEN = '(not shown)';
/** A judge's answer is shorter than a policy's, and its server is retried by the activity too. */
const TIMEOUT_SECONDS = 120;

type Rules = Readonly<Record<string, readonly [holds: (value: number) => boolean, remedy: string]>>;

const SAMPLING: Rules = {
  temperature: [(value) => value >= 0 && value <= 10, 'give a number from 0 (greedy) to 10'],
  topP: [(value) => value > 0 && value <= 1, 'give a number above 0, at most 1'],
  maxTokens: [(value) => Number.isSafeInteger(value) && value >= 1, 'give a whole number of at least 1'],
};

const BUDGET: Rules = {
  tokens: [(value) => Number.isSafeInteger(value) && value >= 1, 'give a whole number of at least 1'],
  usd: [(value) => value > 0 && Number.isFinite(value), 'give a number of US dollars above 0'],
  hours: [
    (value) => value > 0 && value <= LONGEST_SECONDS / 3600,
    `give a number of hours above 0, at most ${LONGEST_SECONDS / 3600}`,
  ],
};

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function numbers<T>(given: unknown, field: string, rules: Rules, refuse: Refuse): Partial<T> {
  const names = Object.keys(rules).join(', ');
  if (!isObject(given)) return refuse(field, HIDDEN, `give { ${names} }`);
  for (const [name, value] of Object.entries(given)) {
    const rule = Object.hasOwn(rules, name) ? rules[name] : undefined;
    if (rule === undefined) return refuse(`${field}.${name}`, HIDDEN, `remove it; there are ${names}`);
    if (typeof value !== 'number' || !rule[0](value))
      return refuse(`${field}.${name}`, typeof value === 'number' ? value : HIDDEN, rule[1]);
  }
  return given as Partial<T>;
}

function judgeOf(given: unknown, field: string, refuse: Refuse): Judge {
  if (!isObject(given)) return refuse(field, HIDDEN, 'give { endpoint: { baseUrl, model } }');
  const { endpoint: written, sampling = {}, budget, ...rest } = given;
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined)
    return refuse(`${field}.${unknown}`, HIDDEN, 'remove it; a judge has endpoint, sampling and budget');
  const mode = isObject(written) ? (written['mode'] ?? 'chat') : 'chat';
  if (mode !== 'chat') return refuse(`${field}.endpoint.mode`, mode, 'leave it out: judges are asked by chat');
  const defaults = { mode, timeoutSeconds: TIMEOUT_SECONDS };
  const endpoint = resolveEndpoint(
    isObject(written) ? { ...defaults, ...written } : written,
    `${field}.endpoint`,
    refuse,
  );
  const limits = budget === undefined ? undefined : numbers<object>(budget, `${field}.budget`, BUDGET, refuse);
  if (limits && 'usd' in limits && endpoint.pricePerMillionTokens === undefined)
    return refuse(
      `${field}.budget.usd`,
      limits['usd'],
      'give endpoint.pricePerMillionTokens too: without it a call costs 0',
    );
  return {
    endpoint,
    sampling: { ...DEFAULT_JUDGE_SAMPLING, ...numbers(sampling, `${field}.sampling`, SAMPLING, refuse) },
    ...(limits && { budget: limits }),
  };
}

/** Errors: those of `refuse`, for the first judge that cannot be used. */
export function resolveJudges(given: unknown, refuse: Refuse): Judges {
  if (!isObject(given)) return refuse('judges', HIDDEN, 'give { NAME: { endpoint: { baseUrl, model } } }');
  return Object.fromEntries(
    Object.entries(given).map(([name, judge]) => {
      if (!JUDGE_NAME.test(name))
        return refuse('judges', name, 'give a name of letters, digits, dash and underscore, a letter first');
      return [name, judgeOf(judge, `judges.${name}`, refuse)];
    }),
  );
}
