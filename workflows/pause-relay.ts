/**
 * Hands a pause, or its end, on to children: each hears the last word that was said, its words in their order, and only
 * a bounded number of signals is under way at once. A child that has ended meanwhile needs to hear nothing.
 */

export interface Steerable {
  signal(name: 'pause' | 'resume'): Promise<void>;
}

interface Child {
  readonly child: Steerable;
  told: boolean;
  /** Resumptions that were sent to it by this history. */
  resumed: number;
}

/** Signals under way at once: far below Temporal's limits on pending signals and on commands of one workflow task. */
const CHUNK = 100;

export class PauseRelay {
  readonly #children = new Map<string, Child>();
  #paused: boolean;
  #settling = false;
  #resting = false;

  /** `paused`: what the children that are adopted were told last. */
  constructor(paused = false) {
    this.#paused = paused;
  }

  /** Nobody is being told anything: a word that is under way would be lost with this history. */
  get isSettled(): boolean {
    return !this.#settling;
  }

  /** Asking for what is so already sends nothing. */
  set(paused: boolean): void {
    this.#paused = paused;
    void this.#settle();
  }

  /** A child that has begun: it is told at once where a pause was asked for before. */
  add(id: string, child: Steerable): void {
    this.#children.set(id, { child, told: false, resumed: 0 });
    void this.#settle();
  }

  /** A child from before this workflow was started again, which may have been told anything: it is told the last word, whichever that is. */
  rejoin(id: string, child: Steerable): void {
    this.#children.set(id, { child, told: !this.#paused, resumed: 0 });
    void this.#settle();
  }

  /**
   * Whether a resumption is on its way to it that it had not heard when it said that it stands still: it goes on by
   * itself. `heard`: how many it had heard by then.
   */
  isResumed(id: string, heard: number): boolean {
    return (this.#children.get(id)?.resumed ?? 0) > heard;
  }

  /** It stands still by itself: the next resumption is to reach it, whatever it was told. */
  stands(id: string): void {
    const known = this.#children.get(id);
    if (known) known.told = true;
  }

  /** A child from an earlier history, which has heard the last word unless it is `untold`. */
  adopt(id: string, child: Steerable, untold = false): void {
    this.#children.set(id, { child, told: this.#paused !== untold, resumed: 0 });
  }

  /** No further word goes out from this history, however many children wait for it: the next one tells the `untold`. */
  rest(): void {
    this.#resting = true;
  }

  /** Those that have not heard the last word. */
  get untold(): string[] {
    return [...this.#children].flatMap(([id, { told }]) => (told === this.#paused ? [] : [id]));
  }

  remove(id: string): void {
    this.#children.delete(id);
  }

  /** One at a time, so that no child hears two words in the wrong order. Never fails. */
  async #settle(): Promise<void> {
    if (this.#settling) return;
    this.#settling = true;
    for (let late = this.#late(); late.length > 0; late = this.#late()) {
      const word = this.#paused ? 'pause' : 'resume';
      for (const one of late) {
        one.told = this.#paused;
        if (!this.#paused) one.resumed += 1;
      }
      // A child that cannot be told has ended, or is being cancelled with this workflow.
      await Promise.allSettled(late.map(({ child }) => child.signal(word)));
    }
    this.#settling = false;
  }

  #late() {
    if (this.#resting) return [];
    return [...this.#children.values()].filter(({ told }) => told !== this.#paused).slice(0, CHUNK);
  }
}
