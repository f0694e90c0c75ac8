/**
 * A workflow's details, as Temporal's UI shows them: its progress, or why it is paused, and below that what is stuck.
 * Details are not part of the history.
 */

import { defineSignal, setCurrentDetails } from '@temporalio/workflow';
import { STALLED, type Stalled } from '../protocol/train-status.ts';

export const stalledSignal = defineSignal<[Stalled]>(STALLED);

/**
 * Returns `text` as inline code, on one line. Temporal's UI reads details as Markdown, in which a policy's words could
 * become lists, links, images or HTML. The fence is longer than any row of backticks in the text.
 */
export function inCode(text: string): string {
  const line = text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ').trim();
  if (line === '') return '';
  const longest = Math.max(0, ...[...line.matchAll(/`+/g)].map(([ticks]) => ticks.length));
  const fence = '`'.repeat(longest + 1);
  return longest === 0 ? `${fence}${line}${fence}` : `${fence} ${line} ${fence}`;
}

export class Details {
  #progress = '';
  #paused: string | null = null;
  #stuck: Stalled = [];

  /** Sets the line that shows the progress. */
  progress(line: string): void {
    this.#progress = line;
    this.#show();
  }

  /** Sets why the workflow is paused; `null`: it is not paused. */
  paused(why: string | null): void {
    if (this.#paused === why) return;
    this.#paused = why;
    this.#show();
  }

  stuck(lines: Stalled): void {
    this.#stuck = lines;
    this.#show();
  }

  #show(): void {
    const [why, ...stuck] = [this.#paused, ...this.#stuck].map((line) => inCode(line ?? ''));
    setCurrentDetails([why || this.#progress, ...stuck].filter((line) => line !== '').join('\n\n'));
  }
}
