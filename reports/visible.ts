/**
 * Text for a terminal or a log: nothing of what policies, tools or servers say may steer it. Control characters, and
 * those that turn the direction of writing, are written out; line ends and tabs stay.
 */

const STEERING = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;

function escaped(character: string): string {
  const code = character.charCodeAt(0).toString(16);
  return code.length > 2 ? `\\u${code.padStart(4, '0')}` : `\\x${code.padStart(2, '0')}`;
}

export function visible(text: string): string {
  return text.replaceAll(STEERING, (c) => (c === '\n' || c === '\t' ? c : escaped(c)));
}

/** The same characters of a JSON text, written out as JSON itself does. */
export function escapedJson(json: string): string {
  return json.replaceAll(STEERING, (c) => (c === '\n' ? c : `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`));
}

export function visibleJson(document: unknown): string {
  const text: string | undefined = JSON.stringify(document, null, 2);
  return escapedJson(text ?? 'null');
}
