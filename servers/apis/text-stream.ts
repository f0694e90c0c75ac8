/**
 * The part of a growing answer's text that can be sent: no incomplete character, no possible start of a stop string,
 * and nothing from a stop string on. Later text always starts with the text that was sent before.
 */

/** Length of the longest end of `text` that is a proper start of `mark`. */
function overlap(text: string, mark: string): number {
  for (let length = Math.min(text.length, mark.length - 1); length > 0; length -= 1) {
    if (text.endsWith(mark.slice(0, length))) return length;
  }
  return 0;
}

/** The first of `stops` in `text`. */
export function stopFound(
  text: string,
  stops: readonly string[],
): { readonly stop: string; readonly at: number } | undefined {
  const found = stops.map((stop) => ({ stop, at: text.indexOf(stop) })).filter(({ at }) => at >= 0);
  return found.toSorted((a, b) => a.at - b.at)[0];
}

/** Position of the first of `stops` in `text`; −1 if there is none. */
export const stopAt = (text: string, stops: readonly string[]): number => stopFound(text, stops)?.at ?? -1;

/** The part of `text`, which may still grow, that can be sent. */
export function tellable(text: string, stops: readonly string[]): string {
  const at = stopAt(text, stops);
  if (at >= 0) return text.slice(0, at);
  // A character of several tokens is decoded as U+FFFD until its last token.
  const whole = text.replace(/\uFFFD{1,3}$/, '');
  const held = Math.max(0, ...stops.map((stop) => overlap(whole, stop)));
  return whole.slice(0, whole.length - held);
}
