/**
 * Passes a pause, or its end, to children. Each child receives the newest signal, and signals in their order; only a
 * bounded number of signals is in flight at once. A child that has ended meanwhile needs no signal.
 */

export interface Steerable {
  signal(name: 'pause' | 'resume'): Promise<void>;
}

interface Child {
  readonly child: Steerable;
  /** True if the last signal that it received was a pause. */
  isPaused: boolean;
  /** Number of resume signals that this history sent to it. */
  resumed: number;
}

/** Signals in flight at once: far below Temporal's limits on pending signals and on commands of one workflow task. */
const CHUNK = 100;

export class PauseRelay {
  readonly #children = new Map<string, Child>();
  #paused: boolean;
  #settling = false;
  #resting = false;

  /** `paused`: whether the last signal to the adopted children was a pause. */
  constructor(paused = false) {
    this.#paused = paused;
  }

  /** True if no signal is in flight: one would be lost with this history. */
  get isSettled(): boolean {
    return !this.#settling;
  }

  /** Sends nothing to children that are in this state already. */
  set(paused: boolean): void {
    this.#paused = paused;
    void this.#settle();
  }

  /** Adds a child that has started; it is paused at once if a pause is in effect. */
  add(id: string, child: Steerable): void {
    this.#children.set(id, { child, isPaused: false, resumed: 0 });
    void this.#settle();
  }

  /**
   * Adds a child from before this workflow was restarted. What it received last is unknown, so it gets the newest
   * signal.
   */
  rejoin(id: string, child: Steerable): void {
    this.#children.set(id, { child, isPaused: !this.#paused, resumed: 0 });
    void this.#settle();
  }

  /**
   * True if a resume signal is in flight that the child had not received when it reported that it is held: it then
   * continues by itself. `received`: number of resume signals that it had received by then.
   */
  isResumed(id: string, received: number): boolean {
    return (this.#children.get(id)?.resumed ?? 0) > received;
  }

  /** The child is held, not paused by a signal: the next resume must reach it, whatever it received before. */
  markHeld(id: string): void {
    const known = this.#children.get(id);
    if (known) known.isPaused = true;
  }

  /** Adds a child from an earlier history, which has received the newest signal unless it is `unsignalled`. */
  adopt(id: string, child: Steerable, unsignalled = false): void {
    this.#children.set(id, { child, isPaused: this.#paused !== unsignalled, resumed: 0 });
  }

  /**
   * Sends no further signals in this history, however many children wait for one: the next history signals the
   * `unsignalled`.
   */
  rest(): void {
    this.#resting = true;
  }

  /** Ids of the children that have not received the newest signal. */
  get unsignalled(): string[] {
    return [...this.#children].flatMap(([id, { isPaused }]) => (isPaused === this.#paused ? [] : [id]));
  }

  remove(id: string): void {
    this.#children.delete(id);
  }

  /** Only one call runs at a time, so that no child receives two signals in the wrong order. Never fails. */
  async #settle(): Promise<void> {
    if (this.#settling) return;
    this.#settling = true;
    for (let late = this.#late(); late.length > 0; late = this.#late()) {
      const signal = this.#paused ? 'pause' : 'resume';
      for (const one of late) {
        one.isPaused = this.#paused;
        if (!this.#paused) one.resumed += 1;
      }
      // A child that cannot be signalled has ended, or is being cancelled with this workflow.
      await Promise.allSettled(late.map(({ child }) => child.signal(signal)));
    }
    this.#settling = false;
  }

  #late() {
    if (this.#resting) return [];
    return [...this.#children.values()].filter(({ isPaused }) => isPaused !== this.#paused).slice(0, CHUNK);
  }
}
