/**
 * A run's current configuration. A change on the live run takes effect at once and is recorded: a run that starts again
 * from its records makes the same changes at the same steps.
 */

import { orchestrator } from '../activity-stubs.ts';
import type { ConfigChange, OpenedConfig } from '../../protocol/run-config.ts';
import { changed, changesOf, type Reconfiguration } from './reconfigure.ts';

export class LiveConfig {
  #now: OpenedConfig;
  #ahead: readonly ConfigChange[];
  /** Number of changes in this history. */
  #times = 0;

  /** `ahead`: recorded changes, of steps up to now and of later steps. */
  constructor(config: OpenedConfig, ahead: readonly ConfigChange[], step: number) {
    this.#now = config;
    this.#ahead = ahead;
    this.catchUp(step);
  }

  get now(): OpenedConfig {
    return this.#now;
  }

  get ahead(): readonly ConfigChange[] {
    return this.#ahead;
  }

  /** Applies recorded changes up to `step`, the last finished step. */
  catchUp(step: number): void {
    this.#now = changed(
      this.#now,
      this.#ahead.filter((change) => change.step <= step),
    );
    this.#ahead = this.#ahead.filter((change) => change.step > step);
  }

  /** Takes effect now. Returns a function that records the change, or `undefined` if nothing changes. */
  change(
    change: Reconfiguration,
    id: string,
    { step, runDir }: { readonly step: number; readonly runDir: string },
  ): (() => Promise<void>) | undefined {
    const at = new Date().toISOString();
    const changes = changesOf(this.#now, change, step, at);
    if (changes.length === 0) return undefined;
    this.#now = changed(this.#now, changes);
    this.#times += 1;
    const { run } = this.#now;
    const key = `${at}/${String(this.#times).padStart(5, '0')}/${id}`;
    return () => orchestrator.recordChanges({ run, runDir, key, changes });
  }
}
