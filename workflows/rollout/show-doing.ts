/** What Temporal's UI shows of a rollout while it runs: its last turns, and what it waits for since when. */

import { setCurrentDetails } from '@temporalio/workflow';
import { inCode } from '../details.ts';
import type { Context } from './rollout-context.ts';

/** Lines that are kept of the turns. */
const LINES = 20;

type Shown = Pick<Context, 'lines' | 'doing'>;

export function showDoing({ lines, doing }: Shown): void {
  setCurrentDetails([...lines, inCode(doing)].join('\n\n'));
}

/** Adds a line. */
export function showLine(context: Shown, line: string): void {
  context.lines = [...context.lines, line].slice(-LINES);
  showDoing(context);
}
