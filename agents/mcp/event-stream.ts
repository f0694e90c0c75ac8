/**
 * Reads server-sent events (WHATWG HTML, section 9.2.6) from parts of a body, in time that grows with its length alone.
 * Events are known by their data; other fields are not used.
 */

export class EventStream {
  readonly #decoder = new TextDecoder('utf-8');
  /** Parts of a line that is not complete. */
  #line: string[] = [];
  /** Lines of an event that is not complete. */
  #data: string[] = [];
  #endedWithReturn = false;

  /** The data of the events that are complete with this part. */
  add(part: Uint8Array): string[] {
    let text = this.#decoder.decode(part, { stream: true });
    if (this.#endedWithReturn && text.startsWith('\n')) text = text.slice(1);
    if (text !== '') this.#endedWithReturn = text.endsWith('\r');
    const lines = text.split(/\r\n|\n|\r/u);
    const rest = lines.pop() ?? '';
    const events = lines.flatMap((line) => {
      const whole = this.#line.join('') + line;
      this.#line = [];
      return this.#lineEnded(whole);
    });
    if (rest !== '') this.#line.push(rest);
    return events;
  }

  /** The data of an event that no empty line has ended. Some servers leave the last one out. */
  end(): string[] {
    const whole = this.#line.join('');
    this.#line = [];
    return [...this.#lineEnded(whole), ...this.#lineEnded('')];
  }

  #lineEnded(line: string): string[] {
    if (line === '') {
      const data = this.#data;
      this.#data = [];
      return data.length === 0 ? [] : [data.join('\n')];
    }
    const field = /^data(?:: ?(.*))?$/su.exec(line);
    if (field !== null) this.#data.push(field[1] ?? '');
    return [];
  }
}
