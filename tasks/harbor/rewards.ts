/**
 * What a verifier wrote, as rewards by name. The rules are Harbor's: `reward.json` counts before `reward.txt`; only
 * finite numbers count; what is missing or wrong is 0, since the policy's own work runs while it is written.
 */

import type { ReadResult } from '../../sandboxes/sandbox.ts';
import type { Verdict } from '../../protocol/stages.ts';

/** Bytes of a reward file. */
export const MOST_REWARD_BYTES = 1 << 20;

/** Rewards of one verdict that are recorded beside the score. */
const MOST_PARTS = 64;

/** Rewards by name; `reward` is the score. */
export type Rewards = Readonly<Record<string, number>>;

export interface Verified {
  readonly rewards: Rewards;
  /** How they came about, for readers. */
  readonly reason: string;
}

const NUMBER = /^[+-]?(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?$/u;

/** The number that Python's `float` reads from a text; `undefined` for none, and for one that is not finite. */
export function floatOf(text: string): number | undefined {
  const trimmed = text.trim();
  if (!NUMBER.test(trimmed) || /_(?!\d)|(?<!\d)_/u.test(trimmed)) return undefined;
  const value = Number(trimmed.replaceAll('_', ''));
  return Number.isFinite(value) ? value : undefined;
}

/** The rewards of `reward.json`, or why it has none. */
function rewardsOfJson(bytes: Uint8Array): Rewards | string {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    return 'reward.json is no JSON';
  }
  if (typeof value === 'number') return Number.isFinite(value) ? { reward: value } : 'reward.json is not finite';
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return 'reward.json is neither a number nor an object';
  const entries = Object.entries(value as Record<string, unknown>);
  if (entries.length === 0) return 'reward.json is an empty object';
  const odd = entries.find(([, one]) => typeof one !== 'number' || !Number.isFinite(one));
  if (odd !== undefined) return `reward.json has ${JSON.stringify(odd[0]).slice(0, 60)}, which is no finite number`;
  return Object.fromEntries(entries as Array<[string, number]>);
}

/** The rewards of both files. Never fails. */
export function rewardsOf(json: ReadResult, text: ReadResult): Verified {
  const why: string[] = [];
  if (json.kind === 'file') {
    const read = rewardsOfJson(json.content);
    if (typeof read !== 'string') return { rewards: read, reason: 'reward.json' };
    why.push(read);
  } else if (json.kind !== 'missing') why.push(`reward.json cannot be read: ${json.kind}`);
  if (text.kind === 'file') {
    const said = Buffer.from(text.content).toString('utf8').trim();
    const value = said === '' ? 0 : floatOf(said);
    if (value !== undefined) return { rewards: { reward: value }, reason: [...why, 'reward.txt'].join('; ') };
    why.push('reward.txt has no finite number');
  } else why.push(text.kind === 'missing' ? 'no reward.txt' : `reward.txt cannot be read: ${text.kind}`);
  return { rewards: { reward: 0 }, reason: why.join('; ') };
}

const GOOD: ReadonlySet<string> = new Set(['PASSED', 'XFAIL', 'SKIPPED']);
const BAD: ReadonlySet<string> = new Set(['FAILED', 'XPASS', 'ERROR']);
const SUMMARY = 'short test summary info';

/** The lines after pytest's first heading of a summary; `undefined` if there is none. */
function summaryLines(output: string): string[] | undefined {
  const lines = output.split('\n');
  const at = lines.findIndex((line) => {
    const where = line.toLowerCase().indexOf(SUMMARY);
    return (
      where > 0 &&
      /=\s*$/u.test(line.slice(Math.max(0, where - 200), where)) &&
      /^\s*=/u.test(line.slice(where + SUMMARY.length))
    );
  });
  return at < 0 ? undefined : lines.slice(at + 1);
}

/**
 * The verdict of Terminal-Bench's first parser on pytest's output: 1 if the summary names a test and each one passed.
 * As there, skipped tests and expected failures count as passed, unexpected passes do not.
 */
export function rewardsOfPytest(output: string): Verified {
  const lines = summaryLines(output);
  if (lines === undefined) return { rewards: { reward: 0 }, reason: 'pytest wrote no short test summary' };
  const statuses = new Map<string, string>();
  for (const line of lines) {
    const [, status = '', name = ''] = /^\s*([A-Z]+):?\s+(\S[^\r]*)/u.exec(line) ?? [];
    if (!GOOD.has(status) && !BAD.has(status)) continue;
    const test = status === 'FAILED' ? name.replace(/ - [^]*$/u, '') : name;
    statuses.set(test.slice(test.indexOf('::') + 1), status);
  }
  const passed = [...statuses.values()].filter((status) => GOOD.has(status)).length;
  const reward = statuses.size > 0 && passed === statuses.size ? 1 : 0;
  return { rewards: { reward }, reason: `${passed} of ${statuses.size} tests passed` };
}

/** The verdict between the markers of Terminal-Bench's SWE-bench tasks. */
export function rewardsOfSweBench(output: string): Verified {
  const start = output.indexOf('SWEBench results starts here');
  const end = output.lastIndexOf('SWEBench results ends here');
  const found = start >= 0 && end > start;
  const said = found ? output.slice(start + 'SWEBench results starts here'.length, end).trim() : '';
  return {
    rewards: { reward: said === 'PASSED' ? 1 : 0 },
    reason: found ? said.slice(0, 100) : 'no result was printed',
  };
}

export type MinReward = number | Readonly<Record<string, number>>;

/** Why a step's rewards end the task; `undefined` if they do not. A key that is missing counts as too low. */
export function belowMin(rewards: Rewards, min: MinReward | undefined): string | undefined {
  if (min === undefined) return undefined;
  const bounds = typeof min === 'number' ? { reward: min } : min;
  for (const [key, bound] of Object.entries(bounds)) {
    const value = Object.hasOwn(rewards, key) ? (rewards[key] ?? -Infinity) : -Infinity;
    if (value < bound) return `${key} ${value} is below min_reward ${bound}`;
  }
  return undefined;
}

/** The sum of finite values may be infinite, and no verdict has such a number. */
function meanOf(values: readonly number[]): number {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return Number.isFinite(mean) ? mean : values.reduce((sum, value) => sum + value / values.length, 0);
}

/**
 * The rewards of all steps as one: the mean of each key over the steps that were verified, or those of the last step.
 */
export function rewardsOfSteps(steps: ReadonlyArray<Rewards | null>, strategy: 'mean' | 'final'): Rewards {
  if (strategy === 'final') return steps.at(-1) ?? { reward: 0 };
  const verified = steps.filter((rewards): rewards is Rewards => rewards !== null);
  const names = [...new Set(verified.flatMap((rewards) => Object.keys(rewards)))];
  if (names.length === 0) return { reward: 0 };
  return Object.fromEntries(names.map((name) => [name, meanOf(verified.map((one) => one[name] ?? 0))]));
}

/** The score: the reward of that key, else the mean of all, since a task may only have parts. */
export function verdictOf({ rewards, reason }: Verified, key: string): Verdict {
  const values = Object.values(rewards);
  const whole = Object.hasOwn(rewards, key) ? rewards[key] : undefined;
  const mean = values.reduce((sum, value) => sum + value / values.length, 0);
  const reward = whole ?? (Number.isFinite(mean) ? mean : 0);
  const others = Object.entries(rewards).filter(([name]) => whole === undefined || name !== key);
  const parts = Object.fromEntries(others.slice(0, MOST_PARTS));
  return {
    code: 'graded',
    reward,
    passed: reward >= 1 - 1e-9,
    reason,
    ...(Object.keys(parts).length > 0 && { metrics: parts }),
  };
}
