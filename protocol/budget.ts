/** Budgets: what a run, an eval or a judge may use, and what one model call used. Pure. */

/** Absent fields: no limit. */
export interface Budget {
  /** Tokens of all model calls, prompt and answer. */
  readonly tokens?: number;
  /** By the endpoints' `pricePerMillionTokens`. */
  readonly usd?: number;
  /** Of a run or an eval: wall time in which it is not paused. Of a judge: the time of its calls, added up. */
  readonly hours?: number;
}

/** US dollars for a million tokens. */
export interface Price {
  readonly prompt: number;
  readonly sampled: number;
}

/** What one model call used, by the policy or by a judge: the detail of the event `spent`. */
export interface Spending {
  /** `policy`, or `judge/NAME`. */
  readonly by: string;
  /** Names the call within its attempt: the event of a repeated call is stored once. */
  readonly call: string;
  readonly prompt: number;
  readonly sampled: number;
  readonly usd?: number;
  readonly seconds?: number;
}

/** What several calls used together. */
export interface Spent {
  readonly calls: number;
  readonly prompt: number;
  readonly sampled: number;
  readonly usd: number;
  readonly seconds: number;
}

export const NOTHING_SPENT: Spent = { calls: 0, prompt: 0, sampled: 0, usd: 0, seconds: 0 };

/** The cost of a call. `undefined` without a price. */
export function costOf(price: Price | undefined, prompt: number, sampled: number): number | undefined {
  return price && (prompt * price.prompt + sampled * price.sampled) / 1e6;
}

export function plus(spent: Spent, { prompt, sampled, usd = 0, seconds = 0 }: Spending): Spent {
  return {
    calls: spent.calls + 1,
    prompt: spent.prompt + prompt,
    sampled: spent.sampled + sampled,
    usd: spent.usd + usd,
    seconds: spent.seconds + seconds,
  };
}

const SECONDS_PER_HOUR = 3600;

/** What calls used, by the fields of a judge's budget. */
export function usedOf({ prompt, sampled, usd, seconds }: Spent): Required<Budget> {
  return { tokens: prompt + sampled, usd, hours: seconds / SECONDS_PER_HOUR };
}

/** The first field of `budget` that calls have reached, with both numbers. `undefined`: none is. */
export function reached(
  budget: Budget,
  spent: Spent,
): { readonly field: keyof Budget; readonly used: number; readonly most: number } | undefined {
  const used = usedOf(spent);
  return (['tokens', 'usd', 'hours'] as const)
    .flatMap((field) => {
      const most = budget[field];
      return most !== undefined && used[field] >= most ? [{ field, used: used[field], most }] : [];
    })
    .at(0);
}
