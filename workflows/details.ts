/**
 * A workflow's details, as Temporal's UI shows them: how far it is, or why it stands still, and below that what is stuck.
 * They are no part of its history.
 */

import { defineSignal, setCurrentDetails } from '@temporalio/workflow';
import { STALLED, type Stalled } from './messages/stalled.ts';

export const stalledSignal = defineSignal<[Stalled]>(STALLED);

export class Details {
  #progress = '';
  #standsStill: string | null = null;
  #stuck: Stalled = [];

  /** How far it is. */
  progress(line: string): void {
    this.#progress = line;
    this.#show();
  }

  /** Why nothing goes on; `null`: it does again. */
  standsStill(why: string | null): void {
    if (this.#standsStill === why) return;
    this.#standsStill = why;
    this.#show();
  }

  stuck(lines: Stalled): void {
    this.#stuck = lines;
    this.#show();
  }

  #show(): void {
    setCurrentDetails([this.#standsStill ?? this.#progress, ...this.#stuck].filter((line) => line !== '').join('\n\n'));
  }
}
