/**
 * Makes text of policies, tools and servers safe for a terminal or a log: control characters, and those that change the
 * direction of writing, are escaped. Line ends and tabs stay.
 */

const STEERING = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;

function escaped(character: string): string {
  const code = character.charCodeAt(0).toString(16);
  return code.length > 2 ? `\\u${code.padStart(4, '0')}` : `\\x${code.padStart(2, '0')}`;
}

export function visible(text: string): string {
  return text.replaceAll(STEERING, (c) => (c === '\n' || c === '\t' ? c : escaped(c)));
}

/** Escapes the same characters in a JSON text, in JSON's way. */
export function escapedJson(json: string): string {
  return json.replaceAll(STEERING, (c) => (c === '\n' ? c : `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`));
}

export function visibleJson(document: unknown): string {
  const text: string | undefined = JSON.stringify(document, null, 2);
  return escapedJson(text ?? 'null');
}
