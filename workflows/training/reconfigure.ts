/**
 * What can be changed on a live run, and by which names; anything else is refused with field, value and remedy. Pure.
 */

import { refusedSetting } from '../batch/dispatch-schedule.ts';
import type { Endpoint } from '../../protocol/endpoint.ts';
import type { DispatcherSettings } from '../../protocol/batch.ts';
import type { Judges } from '../../protocol/judge.ts';
import type { ConfigChange, OpenedConfig } from '../../protocol/run-config.ts';
import { LONGEST_SECONDS } from '../../protocol/limits.ts';
import { mostGroupsOfStep } from './settings.ts';

/** Widths of the dispatcher: they take effect with the next batch. */
const WIDTHS = ['maxParallelAgents', 'maxEvalParallelAgents'] as const satisfies ReadonlyArray<
  keyof DispatcherSettings
>;

interface Bounds {
  /** A short name without dots. */
  readonly short?: string;
  readonly least: number;
  readonly above?: number;
  readonly most?: number;
  readonly whole?: boolean;
}

const SETTINGS: Readonly<Record<string, Bounds>> = {
  'algorithm.learningRate': { short: 'learningRate', least: 0, above: 0 },
  'sampling.temperature': { short: 'temperature', least: 0, most: 10 },
  steps: { least: 1, whole: true },
  'evaluation.every': { short: 'evaluateEvery', least: 0, whole: true },
  'checkpoint.every': { short: 'checkpointEvery', least: 0, whole: true },
  'algorithm.critic.learningRate': { short: 'criticLearningRate', least: 0, above: 0 },
  'training.maxStalenessSteps': { short: 'maxStalenessSteps', least: 0, whole: true },
  'budget.tokens': { least: 1, whole: true },
  'budget.usd': { least: 0, above: 0 },
  'budget.hours': { least: 0, above: 0, most: LONGEST_SECONDS / 3600 },
  'judges.NAME.budget.tokens': { least: 1, whole: true },
  'judges.NAME.budget.usd': { least: 0, above: 0 },
  'judges.NAME.budget.hours': { least: 0, above: 0, most: LONGEST_SECONDS / 3600 },
  ...Object.fromEntries(WIDTHS.map((short) => [`dispatcher.${short}`, { short, least: 1, whole: true }])),
};

const JUDGE = /^judges\.([^.]+)(?=\.budget\.(?:tokens|usd|hours)$)/;
const BUDGET = /(?:^|\.)budget\.(?:tokens|usd|hours)$/;

/** The bounds of a field of the configuration. `undefined` if it cannot be changed on a live run. */
const boundsOf = (field: string): Bounds | undefined =>
  field.startsWith('judges.NAME.') ? undefined : SETTINGS[field.replace(JUDGE, 'judges.NAME')];

const SHORT = new Map(
  Object.entries(SETTINGS).flatMap(([field, { short }]) => (short ? [[short, field] as const] : [])),
);

/** The field of the configuration that a name means. */
const fieldOf = (name: string): string => SHORT.get(name) ?? name;

/** New values by name, each name as in the configuration (`algorithm.learningRate`) or short (`learningRate`). */
export type Reconfiguration = Readonly<Record<string, number>>;

/** All names that `configure` knows; the short name if there is one. */
export const RECONFIGURABLE: readonly string[] = Object.entries(SETTINGS).map(([field, { short }]) => short ?? field);

function problemOf(value: unknown, { least, above, most, whole }: Bounds): string | undefined {
  const kind = whole ? 'a whole number' : 'a number';
  if (typeof value !== 'number' || !Number.isFinite(value) || value < least) return `give ${kind} of at least ${least}`;
  if (above !== undefined && value <= above) return `give ${kind} above ${above}`;
  if (most !== undefined && value > most) return `give ${kind} of at most ${most}`;
  return whole && !Number.isSafeInteger(value) ? 'give a whole number' : undefined;
}

/** Errors: a `TypeError` for the first name or value that cannot be used by a run that has done `step` steps. */
export function checkReconfiguration(change: Reconfiguration, step: number): void {
  const seen = new Set<string>();
  for (const [name, value] of Object.entries(change ?? {})) {
    const field = fieldOf(name);
    const bounds = boundsOf(field);
    if (bounds === undefined) {
      throw new TypeError(`${name}: cannot be changed on a live run; give one of ${RECONFIGURABLE.join(', ')}`);
    }
    const late = field === 'steps' && value <= step ? `give more than ${step}, the run's current step` : undefined;
    const problem = seen.has(field) ? 'it is given twice' : (problemOf(value, bounds) ?? late);
    if (problem !== undefined) throw new TypeError(`${name}: ${JSON.stringify(value)} cannot be used; ${problem}`);
    seen.add(field);
  }
}

type Tree = Readonly<Record<string, unknown>>;

function valueAt(tree: Tree, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (at, key) => (typeof at === 'object' && at !== null ? (at as Tree)[key] : undefined),
    tree,
  );
}

function withValue(tree: Tree, [key = '', ...rest]: readonly string[], value: number): Tree {
  return { ...tree, [key]: rest.length === 0 ? value : withValue((tree[key] ?? {}) as Tree, rest, value) };
}

function checkStaleness({ training, batch }: OpenedConfig, change: Reconfiguration): void {
  const bound = Object.entries(change).find(([name]) => fieldOf(name) === 'training.maxStalenessSteps')?.[1];
  if (bound === undefined) return;
  const mode = training?.mode ?? 'sync';
  if (mode !== 'async')
    throw new TypeError(`training.maxStalenessSteps: cannot be used; it has no effect in mode ${mode}`);
  const most = mostGroupsOfStep(bound);
  if (batch.tasks > most)
    throw new TypeError(
      `training.maxStalenessSteps: ${bound} cannot be used; a step can then have at most ${most} groups, ` +
        `and batch.tasks is ${batch.tasks}`,
    );
}

function checkTemperature({ withoutGreedy, policy }: OpenedConfig, change: Reconfiguration): void {
  if (withoutGreedy !== true) return;
  const greedy = Object.entries(change).some(
    ([name, value]) => fieldOf(name) === 'sampling.temperature' && value === 0,
  );
  if (!greedy) return;
  throw new TypeError(
    `sampling.temperature: 0 cannot be used; give a number above 0: backend ${policy.backend} does not sample greedily`,
  );
}

/** Errors: a `TypeError` for a budget of a judge that is not configured, or of money without a price. */
export function checkBudgets(
  { judges = {} }: { readonly judges?: Judges },
  endpoints: readonly Endpoint[],
  change: Reconfiguration,
): void {
  const priced = (all: readonly Endpoint[]) => all.some(({ pricePerMillionTokens }) => pricePerMillionTokens);
  for (const name of Object.keys(change)) {
    const judge = JUDGE.exec(name)?.[1];
    if (judge !== undefined && !Object.hasOwn(judges, judge))
      throw new TypeError(
        `${name}: cannot be used; there is no such judge; configured: ${Object.keys(judges).join(', ') || 'none'}`,
      );
    const asked = judge === undefined ? endpoints : [judges[judge]?.endpoint].filter((one) => one !== undefined);
    if (name.endsWith('budget.usd') && !priced(asked))
      throw new TypeError(`${name}: cannot be used; no endpoint that it counts has pricePerMillionTokens`);
  }
}

/** True for what can be changed on a live eval. */
export const isBudget = (name: string): boolean => BUDGET.test(name);

/** Errors: a `TypeError` for a value that has no effect with this configuration, or is too large for it. */
export function checkEffect(config: OpenedConfig, change: Reconfiguration): void {
  const changes = (field: string) => Object.keys(change).some((name) => fieldOf(name) === field);
  if (config.algorithm.critic === undefined && changes('algorithm.critic.learningRate')) {
    throw new TypeError(
      'algorithm.critic.learningRate: cannot be used; the run trains no critic (advantage ' +
        `${config.algorithm.advantage})`,
    );
  }
  checkStaleness(config, change);
  checkTemperature(config, change);
  const endpoints = Object.values(config.judges ?? {}).map(({ endpoint }) => endpoint);
  checkBudgets(config, endpoints, change);
  const widths = Object.entries(change).flatMap(([name, value]) => {
    const [section, field] = fieldOf(name).split('.');
    return section === 'dispatcher' && field !== undefined ? [[field, value] as const] : [];
  });
  const refused =
    widths.length > 0 ? refusedSetting({ ...config.dispatcher, ...Object.fromEntries(widths) }) : undefined;
  if (refused)
    throw new TypeError(
      `dispatcher.${refused.field}: ${JSON.stringify(refused.value)} cannot be used; ${refused.remedy}`,
    );
}

/** The fields of `config` that `change` changes. */
export function changesOf(config: object, change: Reconfiguration, step: number, at: string): ConfigChange[] {
  return Object.entries(change).flatMap(([name, to]) => {
    const field = fieldOf(name);
    const from = valueAt(config as unknown as Tree, field.split('.'));
    return from === to ? [] : [{ at, step, field, from: typeof from === 'number' ? from : null, to }];
  });
}

export function changed<Config extends object>(config: Config, changes: readonly ConfigChange[]): Config {
  return changes.reduce<Tree>(
    (tree, { field, to }) => withValue(tree, field.split('.'), to),
    config as unknown as Tree,
  ) as unknown as Config;
}
