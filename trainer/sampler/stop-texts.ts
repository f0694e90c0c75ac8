/** Finds the first of some texts in what is sampled, token by token: a text may begin and end in the middle of a token. */

/** Tokens before the earliest that a text can begin in, so that no character is cut there: UTF-8 has four bytes at most. */
const lead = 4;

export class StopTexts {
  readonly #texts: readonly string[];
  readonly #decode: (ids: readonly number[]) => string;
  /** Every token but an added one stands for a byte at least. */
  readonly #window: number;

  constructor(texts: readonly string[], decode: (ids: readonly number[]) => string) {
    this.#texts = texts;
    this.#decode = decode;
    this.#window = lead + Math.max(...texts.map((text) => Buffer.byteLength(text)));
  }

  /** The text that the last of `tokens` completed; where it completed several, the one that begins first. */
  endedBy(tokens: readonly number[]): string | undefined {
    const text = this.#decode(tokens.slice(-this.#window));
    const found = this.#texts.map((stop) => ({ stop, at: text.indexOf(stop) })).filter(({ at }) => at >= 0);
    return found.sort((a, b) => a.at - b.at)[0]?.stop;
  }
}
