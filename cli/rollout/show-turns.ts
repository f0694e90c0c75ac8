/** Prints one rollout's conversation as it happens, from the store: every message once, in order. */

import { placeText } from '../../protocol/frames.ts';
import type { GenerateRecord } from '../../protocol/records.ts';
import { openedAt, sampledTokensOf, type Said, spoken, messagesAfter } from '../../protocol/transcript.ts';
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

export class TurnPrinter {
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
    for (const message of messages) this.#printMessage(message.role, message);
  }

  /** Prints recorded messages that were not printed yet. An abandoned attempt is not completed. */
  async print(attempt: number): Promise<void> {
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
        for (const message of openedAt(turn, recorded)) this.#printSaid(turn, message);
        this.#printMessage(headOf(turn, record), spoken(record));
        this.#spoken = turn;
      }
      const answer = messagesAfter(turn, recorded);
      if (turn <= this.#answered || answer.length === 0) continue;
      for (const message of answer) this.#printSaid(turn, message);
      this.#answered = turn;
    }
  }

  #printSaid(turn: number, message: Said): void {
    const where = placeText(message);
    const role = message.role === 'tool' ? 'observation' : message.role;
    this.#printMessage([`turn ${turn}`, ...(where === '' ? [] : [where]), role].join(' · '), message);
  }

  #printMessage(head: string, message: Message): void {
    this.#say(`── ${head}\n${messageText(message)}`);
  }
}
