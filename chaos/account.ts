/** The claims that a disturbed run must fulfil, recomputed from its records: pure functions of tables and journals. */

import type { Accounting } from '../reports/accounting.ts';
import type { Work } from './journal.ts';
import type { Activity, Target } from './plan-kills.ts';

export interface Executions {
  readonly modelCalls: number;
  readonly toolCalls: number;
}

/** An execution that started again although no kill had interrupted it. */
export interface Uncut {
  readonly key: string;
  readonly kind: 'model' | 'tool' | 'update';
}

export interface Kill {
  readonly process: Target;
  readonly pid: number;
  /** Of the process that replaced it; `null` if none had to. */
  readonly newPid: number | null;
  /** What it was doing when it was killed. */
  readonly state: Activity;
  /** ISO 8601, UTC. */
  readonly at: string;
  /** From when it could be restarted until it was back at work, in milliseconds; `null` if it did not come back. */
  readonly recoveredMs: number | null;
  /** How long a restart was prevented, in milliseconds. */
  readonly heldMs: number;
  /** The id of the sandbox, if the target is one. */
  readonly what?: string;
  /** Executions that the kill may have interrupted: those that may start a second time. */
  readonly underWay: Executions;
}

const count = (works: readonly Work[], kind: string) =>
  new Set(works.flatMap((work) => (work.kind === kind ? [work.key] : []))).size;

/** Counts distinct keys: a key that started twice counts once. */
export function executionsIn(works: readonly Work[]): Executions {
  return { modelCalls: count(works, 'model'), toolCalls: count(works, 'tool') };
}

/** Kinds of work that may start a second time only if a kill interrupted it. */
const JUDGED = { model: 'model calls', tool: 'tool calls', update: 'updates' } as const;

/**
 * Keys that started again more often than kills had interrupted them, of the judged kinds: a call with a recorded
 * result is among no kill's keys. `cuts`: the keys that each kill may have interrupted.
 */
export function uncutRepeats(works: readonly Work[], cuts: ReadonlyArray<readonly string[]>): Uncut[] {
  const spare = new Map<string, number>();
  for (const key of cuts.flatMap((keys) => [...new Set(keys)])) spare.set(key, (spare.get(key) ?? 0) + 1);
  const begun = new Set<string>();
  const uncut: Uncut[] = [];
  for (const { key, kind } of works) {
    const isAgain = begun.has(key) && Object.hasOwn(JUDGED, kind);
    begun.add(key);
    const left = spare.get(key) ?? 0;
    if (isAgain && left === 0) uncut.push({ key, kind: kind as Uncut['kind'] });
    if (isAgain && left > 0) spare.set(key, left - 1);
  }
  return uncut;
}

/** Executions after the first one of their key. */
export function repeatedIn(works: readonly Work[]): Executions & { readonly updates: number } {
  const beyond = (kind: string) => works.filter((work) => work.kind === kind).length - count(works, kind);
  return { modelCalls: beyond('model'), toolCalls: beyond('tool'), updates: beyond('update') };
}

/** The smallest value such that at least `share` of all values are no larger (nearest rank); `null` without values. */
export function quantile(values: readonly number[], share: number): number | null {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? null;
}

export interface Recovery {
  readonly kills: number;
  readonly p50: number | null;
  readonly p95: number | null;
  readonly max: number | null;
}

const SERVER: ReadonlySet<Target> = new Set(['temporal', 'temporal-down']);
const WORKERS: ReadonlySet<Target> = new Set(['orchestrator', 'init', 'agent-run', 'reward', 'gpu', 'trainer']);

/** Recovery times by group, in milliseconds. */
export function recoveryOf(kills: readonly Kill[]): Record<'worker' | 'server' | 'other', Recovery> {
  const group = ({ process }: Kill) => (SERVER.has(process) ? 'server' : WORKERS.has(process) ? 'worker' : 'other');
  const of = (name: string): Recovery => {
    const values = kills.filter((kill) => group(kill) === name).flatMap(({ recoveredMs }) => recoveredMs ?? []);
    return { kills: values.length, p50: quantile(values, 0.5), p95: quantile(values, 0.95), max: quantile(values, 1) };
  };
  return { worker: of('worker'), server: of('server'), other: of('other') };
}

export interface Claims {
  readonly kills: readonly Kill[];
  readonly accounting: Accounting;
  readonly uncut: readonly Uncut[];
  readonly identical: boolean;
  /** Rollouts whose tokens or reward differ from the reference's. */
  readonly otherwise: readonly string[];
}

/** The claims that do not hold, as sentences; empty if all hold. */
export function broken({ kills, accounting, uncut, identical, otherwise }: Claims): string[] {
  const { dispatched, trained, masked, dropped, evaluated, lost, duplicated } = accounting;
  const ended = trained + masked + dropped + evaluated;
  const stuck = kills.filter(({ recoveredMs }) => recoveredMs === null).map(({ process }) => process);
  return [
    ...(identical ? [] : ["the disturbed run's final weights differ from the reference's"]),
    ...(otherwise.length > 0
      ? [`${otherwise.length} rollouts differ from the reference, for example ${otherwise[0]}`]
      : []),
    ...(lost > 0 ? [`${lost} rollouts were lost`] : []),
    ...(duplicated > 0 ? [`${duplicated} rollouts were duplicated`] : []),
    ...(ended + lost === dispatched ? [] : [`${dispatched} rollouts were dispatched, and ${ended} ended`]),
    ...Object.entries(JUDGED).flatMap(([kind, words]) => {
      const [first, ...others] = uncut.filter((one) => one.kind === kind);
      return first
        ? [
            `${1 + others.length} ${words} started again although no kill had interrupted them, ` +
              `for example ${first.key}`,
          ]
        : [];
    }),
    ...(stuck.length > 0 ? [`not back in time: ${stuck.join(', ')}`] : []),
  ];
}
