/** What is in `\boxed{…}`: braces are counted, and a text is read once, however many of them it has. */

const COMMANDS = /\\(?:boxed|fbox)\s*/g;

/**
 * The content of the braces of a command that begins at `start`; `undefined` if there are none, or they do not end.
 * `escapes`: `\{` and `\}` are no braces.
 */
export function boxedAt(text: string, start: number, escapes = true): string | undefined {
  if (start < 0) return undefined;
  const open = text.indexOf('{', start);
  if (open < 0) return undefined;
  let depth = 0;
  for (let at = open; at < text.length; at += 1) {
    const char = text[at];
    // An escaped brace is a set's.
    if (char === '\\' && escapes) at += 1;
    else if (char === '{') depth += 1;
    else if (char === '}') {
      depth -= 1;
      if (depth === 0) return text.slice(open + 1, at);
    }
  }
  return undefined;
}

/** The content of the last `\boxed`, also `\boxed 5`; `undefined` if there is none, or if its braces do not end. */
export function lastBoxed(text: string): string | undefined {
  const found = [...text.matchAll(COMMANDS)].at(-1);
  if (found === undefined) return undefined;
  const after = found.index + found[0].length;
  if (text[after] === '{') return boxedAt(text, after);
  return /^[^\s$\\{}]+/.exec(text.slice(after, after + 100))?.[0];
}
