/**
 * The text of a growing answer as far as it can be told: never half a character, nothing that a stop string may begin
 * with, and nothing from a stop string on. What was told once stays the beginning of what is told later.
 */

/** How long an end of `text` is that is a beginning of `mark`. */
function overlap(text: string, mark: string): number {
  for (let length = Math.min(text.length, mark.length - 1); length > 0; length -= 1) {
    if (text.endsWith(mark.slice(0, length))) return length;
  }
  return 0;
}

/** Where the first of `stops` begins in `text`; −1 where none does. */
export function stopAt(text: string, stops: readonly string[]): number {
  const found = stops.map((stop) => text.indexOf(stop)).filter((at) => at >= 0);
  return found.length === 0 ? -1 : Math.min(...found);
}

/** What of `text`, which still grows, can be told already. */
export function tellable(text: string, stops: readonly string[]): string {
  const at = stopAt(text, stops);
  if (at >= 0) return text.slice(0, at);
  // A character of several tokens comes out as U+FFFD until its last one is there.
  const whole = text.replace(/\uFFFD{1,3}$/, '');
  const held = Math.max(0, ...stops.map((stop) => overlap(whole, stop)));
  return whole.slice(0, whole.length - held);
}
