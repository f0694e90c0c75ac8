/**
 * Logs of pytest. The short summary (`-rA`) has lines such as `FAILED id - message`; the verbose form has lines such as
 * `id PASSED [ 50%]`. Ids are cut at the first white space, as the lists of SWE-bench are, unless a parser says
 * otherwise.
 */

import { byLine, endsWithStatus, isStatus, startsWithStatus, type Status, wordsOf } from './status.ts';

/** `SKIPPED [3] path:12: reason` counts tests, and names none. */
const isSkipCount = (status: string, name: string): boolean => status === 'SKIPPED' && /^\[\d+\]$/u.test(name);

/** The id and status of a line of the short summary. */
function summarised(line: string): readonly [string, Status] | undefined {
  if (!startsWithStatus(line)) return undefined;
  const [status = '', name] = wordsOf(line.startsWith('FAILED') ? line.replaceAll(' - ', ' ') : line);
  return name === undefined || !isStatus(status) || isSkipCount(status, name) ? undefined : [name, status];
}

export const pytest = byLine((line, found) => {
  const one = summarised(line);
  if (one) found.set(...one);
});

/** Paths in parameters depend on the machine: of `[/a/b]`, `[/b]` is left. What follows the last bracket is dropped. */
function withoutFolders(name: string): string {
  const [open, close] = [name.indexOf('['), name.lastIndexOf(']')];
  if (open < 0 || close < open) return name;
  const option = name.slice(open + 1, close);
  const isPath = option.startsWith('/') && !option.startsWith('//') && !option.includes('*');
  return `${name.slice(0, open)}[${isPath ? option.slice(option.lastIndexOf('/')) : option}]`;
}

export const pytestOptions = byLine((line, found) => {
  const one = summarised(line);
  if (one) found.set(withoutFolders(one[0]), one[1]);
});

/** Matplotlib's older lists have numbers where newer versions print names. */
export const matplotlib = byLine((line, found) => {
  const one = summarised(line.replaceAll('MouseButton.LEFT', '1').replaceAll('MouseButton.RIGHT', '3'));
  if (one) found.set(...one);
});

/** Without colours. Ids keep their spaces; the status may come last. */
export const pytestV2 = byLine((coloured, found) => {
  // oxlint-disable-next-line no-control-regex
  const line = coloured.replaceAll(/\[\d+m/gu, '').replaceAll(/[\u0001-\u001F]/gu, '');
  if (startsWithStatus(line)) {
    const [status = '', ...name] = wordsOf(line.startsWith('FAILED') ? (line.split(' - ', 1)[0] ?? '') : line);
    if (name.length > 0 && isStatus(status) && !isSkipCount(status, name[0] ?? '')) found.set(name.join(' '), status);
  } else if (endsWithStatus(line)) {
    const words = wordsOf(line);
    const status = words.pop() ?? '';
    if (words.length > 0 && isStatus(status)) found.set(words.join(' '), status);
  }
});

export const seaborn = byLine((line, found) => {
  const [first = '', second] = wordsOf(line);
  if (second === undefined) return;
  if (line.startsWith('FAILED')) found.set(second, 'FAILED');
  else if (line.includes(' PASSED ')) {
    if (second === 'PASSED') found.set(first, 'PASSED');
  } else if (line.startsWith('PASSED')) found.set(second, 'PASSED');
});

/** SWE-smith: the verbose form, and the summary too. */
export const pytestVerbose = byLine((line, found) => {
  const [name = '', status = ''] = wordsOf(line);
  if (/^\s/u.test(line)) return;
  if (isStatus(status) && !isStatus(name)) found.set(name, status);
  else {
    const one = summarised(line);
    if (one) found.set(...one);
  }
});
