/** What a run or an eval has used of its budgets, as numbers for files and as lines for people. */

import { type Budget, type Spent, usedOf } from '../protocol/budget.ts';
import type { Store } from '../store/store.ts';
import { budgetsOf } from './budgets.ts';
import { byJudge, POLICY, type SpendingReport, sumOf } from './spending.ts';

export interface SpentReport {
  readonly tokens: number;
  readonly usd: number;
  /** Hours in which it was not paused, as far as they are recorded. */
  readonly hours: number;
  /** As it is now. Empty: no limit. */
  readonly budget: Budget;
  readonly policy: Spent | null;
  readonly judges: Readonly<Record<string, Spent & { readonly budget: Budget }>>;
}

const HOUR_MS = 3_600_000;
const rounded = (value: number, digits = 6): number => Number(value.toFixed(digits));

/** `run`: an eval as `eval/ID`. */
export async function spentOf(
  run: string,
  store: Pick<Store, 'get' | 'list'>,
  { by }: SpendingReport,
  workedMs: number,
): Promise<SpentReport> {
  const { budget, judges } = (await budgetsOf(run, store)) ?? { budget: {}, judges: {} };
  const { prompt, sampled, usd } = sumOf(by);
  const asked = [...by.keys()].flatMap((name) => (name === POLICY ? [] : [name.slice(byJudge('').length)]));
  const names = [...new Set([...Object.keys(judges), ...asked])];
  const none: Spent = { calls: 0, prompt: 0, sampled: 0, usd: 0, seconds: 0 };
  return {
    tokens: prompt + sampled,
    usd: rounded(usd),
    hours: rounded(workedMs / HOUR_MS, 4),
    budget,
    policy: by.get(POLICY) ?? null,
    judges: Object.fromEntries(
      names.map((name) => [name, { ...(by.get(byJudge(name)) ?? none), budget: judges[name] ?? {} }]),
    ),
  };
}

const whole = (value: number): string => value.toLocaleString('en-US');
const shortHours = (value: number): string => (value < 1 ? `${Number(value.toPrecision(2))}` : value.toFixed(1));
const dollars = (value: number): string => `$${value < 1 ? Number(value.toPrecision(3)) : value.toFixed(2)}`;

/** `1,200 of 5,000 tokens (24%)`. */
function part(used: number, most: number | undefined, text: (value: number) => string, unit: string): string {
  if (most === undefined) return `${text(used)}${unit}`;
  return `${text(used)} of ${text(most)}${unit} (${Math.floor((100 * used) / most)}%)`;
}

function partsOf({ tokens, usd, hours }: Required<Budget>, budget: Budget): string[] {
  return [
    part(tokens, budget.tokens, whole, ' tokens'),
    ...(usd > 0 || budget.usd !== undefined ? [part(usd, budget.usd, dollars, '')] : []),
    ...(budget.hours === undefined ? [] : [part(hours, budget.hours, shortHours, ' hours')]),
  ];
}

/** A line for the run, and one for each judge. Empty if nothing was used and nothing is limited. */
export function spentLines({ tokens, usd, hours, budget, judges }: SpentReport): string[] {
  const isLimited = Object.keys(budget).length > 0;
  return [
    ...(tokens > 0 || isLimited ? [`used: ${partsOf({ tokens, usd, hours }, budget).join(' · ')}`] : []),
    ...Object.entries(judges).map(
      ([name, { budget: most, ...spent }]) =>
        `judge ${name}: ` +
        [`${whole(spent.calls)} answers`, ...partsOf(usedOf(spent), most), `${spent.seconds.toFixed(1)} s`].join(' · '),
    ),
  ];
}

/** The largest used share of a limit: `40% of tokens`; without a limit the tokens: `1,200 tokens`. */
export function usedText({ tokens, usd, hours, budget }: SpentReport): string {
  const used = { tokens, usd, hours };
  const shares = (['tokens', 'usd', 'hours'] as const).flatMap((name) => {
    const most = budget[name];
    return most === undefined ? [] : [{ name, share: used[name] / most }];
  });
  const [most] = shares.toSorted((a, b) => b.share - a.share);
  return most === undefined ? `${whole(tokens)} tokens` : `${Math.floor(100 * most.share)}% of ${most.name}`;
}

const LIMITS = {
  tokens: (value: number) => `${whole(value)} tokens`,
  usd: dollars,
  hours: (value: number) => `${value} hours`,
} as const;

/** `5,000 tokens, $4`. Empty without a limit. */
export function budgetText(budget: Budget | undefined = {}): string {
  return (['tokens', 'usd', 'hours'] as const)
    .flatMap((name) => (budget[name] === undefined ? [] : [LIMITS[name](budget[name])]))
    .join(', ');
}
