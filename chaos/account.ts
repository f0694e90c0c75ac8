/** What a disturbed run is held to, recomputed from the records alone: pure functions of tables and journals. */

import type { Accounting } from '../reports/accounting.ts';
import type { Work } from './journal.ts';
import type { Activity, Target } from './plan-kills.ts';

export interface Executions {
  readonly modelCalls: number;
  readonly toolCalls: number;
}

/** An execution that began again although no kill had cut it off. */
export interface Uncut {
  readonly key: string;
  readonly kind: 'model' | 'tool' | 'update';
}

export interface Kill {
  readonly process: Target;
  readonly pid: number;
  /** Of what took its place; `null` where nothing had to. */
  readonly newPid: number | null;
  /** What it was doing when it was killed. */
  readonly state: Activity;
  /** ISO 8601, UTC. */
  readonly at: string;
  /** Until it was back and at work, from when somebody might start it again; `null`: it never was. */
  readonly recoveredMs: number | null;
  /** For so long nobody was allowed to start it again. */
  readonly heldMs: number;
  /** The sandbox, or the role, where the process's name does not say it. */
  readonly what?: string;
  /** Executions that the kill may have cut off: those that may begin a second time. */
  readonly underWay: Executions;
}

const count = (works: readonly Work[], kind: string) =>
  new Set(works.flatMap((work) => (work.kind === kind ? [work.key] : []))).size;

/** By key: a key that began twice is one. */
export function executionsIn(works: readonly Work[]): Executions {
  return { modelCalls: count(works, 'model'), toolCalls: count(works, 'tool') };
}

/** What may begin a second time only where a kill cut it off. */
const JUDGED = { model: 'model calls', tool: 'tool calls', update: 'updates' } as const;

/**
 * Keys that began again more often than kills had cut them off, of each kind that is judged: a call that was on record is
 * among no kill's. `cuts`: the keys of each kill.
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

/** Executions begun beyond the first, per key. */
export function repeatedIn(works: readonly Work[]): Executions & { readonly updates: number } {
  const beyond = (kind: string) => works.filter((work) => work.kind === kind).length - count(works, kind);
  return { modelCalls: beyond('model'), toolCalls: beyond('tool'), updates: beyond('update') };
}

/** The smallest value that at least `share` of all are no larger than (nearest rank); `null` of nothing. */
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

/** Times to recover by group, milliseconds. */
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
  /** Rollouts whose tokens or reward are not those of the reference. */
  readonly otherwise: readonly string[];
}

/** What does not hold, in words; empty where all does. */
export function broken({ kills, accounting, uncut, identical, otherwise }: Claims): string[] {
  const { dispatched, trained, masked, dropped, evaluated, lost, duplicated } = accounting;
  const ended = trained + masked + dropped + evaluated;
  const stuck = kills.filter(({ recoveredMs }) => recoveredMs === null).map(({ process }) => process);
  return [
    ...(identical ? [] : ['the disturbed run ended with other weights than the reference']),
    ...(otherwise.length > 0
      ? [`${otherwise.length} rollouts came to something else than in the reference, ${otherwise[0]} among them`]
      : []),
    ...(lost > 0 ? [`${lost} rollouts were lost`] : []),
    ...(duplicated > 0 ? [`${duplicated} rollouts were duplicated`] : []),
    ...(ended + lost === dispatched ? [] : [`${dispatched} rollouts were dispatched, and ${ended} ended`]),
    ...Object.entries(JUDGED).flatMap(([kind, words]) => {
      const [first, ...others] = uncut.filter((one) => one.kind === kind);
      return first
        ? [`${1 + others.length} ${words} began again that no kill had cut off, ${first.key} among them`]
        : [];
    }),
    ...(stuck.length > 0 ? [`not back in time: ${stuck.join(', ')}`] : []),
  ];
}
