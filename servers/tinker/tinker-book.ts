/**
 * The journal of the Tinker API as its server uses it: what is accepted is written first, then its lane's workflow is
 * woken; housekeeping runs beside it until it is closed.
 */

import type { Client } from '@temporalio/client';
import type { TinkerJournal } from '../../store/tinker/journal.ts';

export interface TinkerBookOptions {
  /** Of the stack's store. */
  readonly store: string;
  readonly client: Pick<Client, 'workflow'>;
  /** The models that are served: their names, and directories in Hugging Face layout. */
  readonly bases: ReadonlyArray<{ readonly name: string; readonly dir: string }>;
  readonly say: (line: string) => void;
}

export interface TinkerBook extends TinkerJournal {
  close(): Promise<void>;
}

/** Errors: `UserInputError` if the store is not a folder of this machine; disk errors by their class. */
export function openTinkerBook(_options: TinkerBookOptions): Promise<TinkerBook> {
  return Promise.reject(new Error('openTinkerBook is being written on h-t2b: its signature stands'));
}
