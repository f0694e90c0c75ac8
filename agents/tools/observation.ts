/**
 * Converts a program's output for the policy: without terminal escapes and control characters, with each line as a
 * terminal would finally show it, and cut to the limit of an observation.
 */

// Escape sequences: CSI, OSC (and the like, which end with BEL or ST), and those of two or three characters.
const ESCAPES = new RegExp(
  [
    String.raw`\u001b\[[0-?]*[ -/]*[@-~]`,
    String.raw`\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)?`,
    String.raw`\u001b[ -/]*[0-~]`,
  ].join('|'),
  'gu',
);
const CONTROLS = new RegExp(String.raw`[\u0000-\u0008\u000b-\u001f\u007f-\u009f]`, 'gu');

/** The visible part of an overwritten line: the text after the last carriage return. */
const lastWritten = (line: string): string => line.slice(line.lastIndexOf('\r') + 1);

export function normalizeOutput(text: string): string {
  // The lookbehind matches a run of `\r` only at its start: matching from each character would take quadratic time.
  const plain = text.replaceAll(ESCAPES, '').replaceAll(/(?<!\r)\r+\n/gu, '\n');
  const lines = plain.includes('\r')
    ? plain.split('\n').map((line) => lastWritten(line.replace(/(?<!\r)\r+$/u, '')))
    : undefined;
  return (lines?.join('\n') ?? plain).replaceAll(CONTROLS, '');
}

/** The index, moved so that it does not split a surrogate pair. */
const between = (text: string, index: number): number => {
  const code = text.charCodeAt(index);
  return code >= 0xdc00 && code <= 0xdfff ? index - 1 : index;
};

/** Cuts the middle of a text longer than `max` characters, and inserts a line with the number of missing characters. */
export function truncateMiddle(text: string, max: number): string {
  if (text.length <= max) return text;
  const head = between(text, Math.ceil(max / 2));
  const tail = between(text, text.length - Math.floor(max / 2));
  return `${text.slice(0, head)}\n[${tail - head} characters left out]\n${text.slice(tail)}`;
}
