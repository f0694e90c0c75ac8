/** A workflow's details, as Temporal's UI shows them: how far it is, or why it stands still. */

import { setCurrentDetails } from '@temporalio/workflow';

export class Details {
  #progress = '';
  #standsStill: string | null = null;

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

  #show(): void {
    setCurrentDetails(this.#standsStill ?? this.#progress);
  }
}
