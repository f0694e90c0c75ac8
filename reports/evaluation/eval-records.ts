/** What an eval writes into the store: the keys, and the shape under each. A name stands for one sweep from then on. */

import { join } from 'node:path';
import type { CellResult, SweepChunk, SweepConfig, ResolvedPolicy } from '../../protocol/eval.ts';

function padded(n: number): string {
  return String(n).padStart(5, '0');
}

/** What its rollouts' events are told under; a run of that name is another thing. */
export function evalRun(id: string): string {
  return `eval/${id}`;
}

/**
 * The folder of an eval below `dir`. The colons of a scheduled sweep's time, which some tools take for something else in
 * a path, become plus signs, which no name has: two evals never share a folder.
 */
export function evalFolder(dir: string, id: string): string {
  return join(dir, id.replaceAll(':', '+'));
}

export const evalKeys = {
  record: (id: string) => `eval:${id}`,
  round: (id: string, round: number) => `eval-round:${id}/${padded(round)}`,
  plan: (id: string, cell: string, round: number) => `eval-plan:${id}/${cell}/${padded(round)}`,
  cell: (id: string, round: number, cell: string) => `eval-cell:${id}/${padded(round)}/${cell}`,
  end: (id: string, round: number) => `eval-end:${id}/${padded(round)}`,
} as const;

export interface EvalRecord {
  readonly eval: string;
  readonly evalDir: string;
  readonly startedAt: string;
  readonly config: SweepConfig;
  readonly policies: readonly ResolvedPolicy[];
}

/** One start of the sweep. */
export interface EvalRound {
  /** The workflow's first execution: one that continues as new is in the same round. */
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
}

export type { CellResult };
