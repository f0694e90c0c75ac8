/** Finds the first of several texts in the sampled tokens: a text may begin and end in the middle of a token. */

/** Extra tokens at the start of the window, so that it cuts no character: a UTF-8 character has at most four bytes. */
const lead = 4;

export class StopTexts {
  readonly #texts: readonly string[];
  readonly #decode: (ids: readonly number[]) => string;
  /** In tokens. Every token except an added one stands for at least one byte. */
  readonly #window: number;

  constructor(texts: readonly string[], decode: (ids: readonly number[]) => string) {
    this.#texts = texts;
    this.#decode = decode;
    this.#window = lead + Math.max(...texts.map((text) => Buffer.byteLength(text)));
  }

  /** The text that the last of `tokens` completed; if it completed several, the one that begins first. */
  endedBy(tokens: readonly number[]): string | undefined {
    const text = this.#decode(tokens.slice(-this.#window));
    const found = this.#texts.map((stop) => ({ stop, at: text.indexOf(stop) })).filter(({ at }) => at >= 0);
    return found.sort((a, b) => a.at - b.at)[0]?.stop;
  }
}
