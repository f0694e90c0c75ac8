/** The seam of formats: a writer takes whole groups, in order, and writes complete files. */

import type { OutcomeGroup } from '../groups.ts';
import type { ExportedRollout, SequencedRollout } from '../exported-rollout.ts';
import type { Trajectory } from '../../trajectories.ts';
import type { ToolSchema } from '../../../protocol/message.ts';
import type { Place } from '../../../protocol/frames.ts';

export const FORMATS = ['skyrl', 'verl', 'tinker', 'jsonl', 'parquet'] as const;
export type FormatName = (typeof FORMATS)[number];

/** One context of a rollout as its agent saw it. */
export interface ChatContext extends Place {
  readonly messages: Trajectory['messages'];
  readonly tools: readonly ToolSchema[];
}

/** For formats of chats. */
export interface ToldRollout extends ExportedRollout {
  readonly trajectory: Trajectory;
  readonly contexts: readonly ChatContext[];
}

export interface ExportedGroup<Rollout> extends Pick<OutcomeGroup, 'step' | 'cell' | 'name' | 'task'> {
  readonly rollouts: readonly Rollout[];
}

/** Where a rollout's rows are: in `file`, `rows` of them from row `first` on. */
export interface Placed {
  readonly file: string;
  readonly first: number;
  readonly rows: number;
}

export interface Writer<Rollout> {
  /** The places of the group's rollouts, in order. Without rows: nothing of it could be written. */
  add(group: ExportedGroup<Rollout>): Promise<readonly Placed[]>;
  /** Completes the last file. */
  close(): Promise<void>;
}

export type SequenceWriter = Writer<SequencedRollout>;
export type ChatWriter = Writer<ToldRollout>;

/** `part-00000`. */
export const partName = (number: number): string => `part-${String(number).padStart(5, '0')}`;
