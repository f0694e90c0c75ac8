/** The records of an eval: their keys and types. A name belongs to one sweep forever. */

import type { ObjectRef } from '../../protocol/stages.ts';
import { join } from 'node:path';
import type { CellResult, SettledSweep, SweepChunk, ResolvedPolicy } from '../../protocol/eval.ts';

function padded(n: number): string {
  return String(n).padStart(5, '0');
}

/** The name under which an eval's events are recorded. It differs from a run's with the same name. */
export function evalRun(id: string): string {
  return `eval/${id}`;
}

/**
 * The folder of an eval below `dir`. Colons (in the time of a scheduled sweep) become plus signs, since some tools
 * misread a colon in a path. No name has a plus sign, so two evals never share a folder.
 */
export function evalFolder(dir: string, id: string): string {
  return join(dir, id.replaceAll(':', '+'));
}

export const evalKeys = {
  record: (id: string) => `eval:${id}`,
  round: (id: string, round: number) => `eval-round:${id}/${padded(round)}`,
  plan: (id: string, cell: string, round: number) => `eval-plan:${id}/${cell}/${padded(round)}`,
  cell: (id: string, round: number, cell: string) => `eval-cell:${id}/${padded(round)}/${cell}`,
  /** Prefix of all ends of the eval. */
  ends: (id: string) => `eval-end:${id}/`,
  end: (id: string, round: number) => `eval-end:${id}/${padded(round)}`,
} as const;

export interface EvalRecord {
  readonly eval: string;
  readonly evalDir: string;
  readonly startedAt: string;
  readonly config: SettledSweep;
  /** Says what the tasks' keys mean. Absent: they start with an environment's name. */
  readonly catalog?: ObjectRef;
  readonly policies: readonly ResolvedPolicy[];
  /** Digests of the folders of tools that its tasks name, by path. Absent: none on the host that opened it. */
  readonly tools?: Readonly<Record<string, string>>;
}

/** One start of the sweep. */
export interface EvalRound {
  /** The workflow's first execution: a workflow that continues as new stays in its round. */
  readonly execution: string;
  readonly startedAt: string;
}

export interface CellPlan {
  readonly chunks: readonly SweepChunk[];
  readonly total: number;
  readonly known: number;
}

export interface EvalEnd {
  readonly status: 'completed' | 'failed' | 'cancelled';
  readonly finishedAt: string;
  readonly message: string;
  /** Milliseconds in which the eval was not paused, in all its rounds. Absent: not known. */
  readonly workedMs?: number;
}

export type { CellResult };
