/** Prints one rollout's conversation as it happens, from the store: every message once, in order. */

import { placeText } from '../../protocol/frames.ts';
import type { GenerateRecord } from '../../protocol/records.ts';
import { openedAt, sampledTokensOf, type Said, spoken, toldAfter } from '../../protocol/transcript.ts';
import { actsOf, turnsOf } from '../../store/read-records.ts';
import type { Message } from '../../protocol/message.ts';
import type { Store } from '../../store/store.ts';
import { messageText } from '../train/format.ts';

/** A server may not report how many tokens it sampled. */
function headOf(turn: number, record: GenerateRecord): string {
  const where = placeText(record);
  const isCounted = record.chat === undefined || record.chat.usage !== null;
  return [
    `turn ${turn}`,
    ...(where === '' ? [] : [where]),
    ...(isCounted ? [`${sampledTokensOf(record)} tokens`] : []),
    ...(record.end === 'stop' ? [] : [record.end]),
    ...(record.hints ?? []).map((rule) => `hint ${rule}`),
  ].join(' · ');
}

export class TurnTeller {
  readonly #rollout: string;
  readonly #store: Store;
  readonly #say: (line: string) => void;
  #attempt = 1;
  /** Turns of this attempt whose model call, and whose answer, were printed. */
  #spoken = 0;
  #answered = 0;

  constructor(rollout: string, store: Store, say: (line: string) => void) {
    this.#rollout = rollout;
    this.#store = store;
    this.#say = say;
  }

  prompt(messages: readonly Message[]): void {
    for (const message of messages) this.#tell(message.role, message);
  }

  /** Prints recorded messages that were not printed yet. An abandoned attempt is not completed. */
  async tell(attempt: number): Promise<void> {
    if (attempt !== this.#attempt) {
      this.#say(`── attempt ${attempt}: the sandbox was lost, and the rollout starts again`);
      [this.#attempt, this.#spoken, this.#answered] = [attempt, 0, 0];
    }
    const at = { rollout: this.#rollout, attempt };
    const [turns, acts] = [await turnsOf(this.#store, at), await actsOf(this.#store, at)];
    for (const [index, record] of turns.entries()) {
      const turn = index + 1;
      const recorded = { turns, acts };
      if (turn > this.#spoken) {
        for (const message of openedAt(turn, recorded)) this.#told(turn, message);
        this.#tell(headOf(turn, record), spoken(record));
        this.#spoken = turn;
      }
      const answer = toldAfter(turn, recorded);
      if (turn <= this.#answered || answer.length === 0) continue;
      for (const message of answer) this.#told(turn, message);
      this.#answered = turn;
    }
  }

  #told(turn: number, message: Said): void {
    const where = placeText(message);
    const role = message.role === 'tool' ? 'observation' : message.role;
    this.#tell([`turn ${turn}`, ...(where === '' ? [] : [where]), role].join(' · '), message);
  }

  #tell(head: string, message: Message): void {
    this.#say(`── ${head}\n${messageText(message)}`);
  }
}
