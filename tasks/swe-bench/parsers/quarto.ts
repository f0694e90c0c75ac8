/** Logs of Quarto's tests, run by Deno (SWE-bench Multimodal): `[smoke] > NAME ... ok (1s)`, in colours. */

import type { LogParser, Status } from './status.ts';

const TEMPORARY = [/\/tmp\/[\p{L}\p{N}_]+\.qmd/u, /\/tmp\/[\p{L}\p{N}_]+\//u];
const RESULTS: ReadonlyArray<readonly [string, Status]> = [
  ['32mok', 'PASSED'],
  ['31mFAILED', 'FAILED'],
];

const isSummary = (line: string): boolean =>
  line.startsWith('test result:') ||
  ['passed', 'failed', 'steps'].every((word) => line.includes(word)) ||
  line.includes('34mINFO');

/** Temporary files are numbered by their first appearance. A test without a result has failed. */
export const quarto: LogParser = (log) => {
  const found = new Map<string, Status>();
  const numbers = new Map<string, number>();
  for (let line of log.split('\n')) {
    if (line.includes('ERRORS') || line.includes('failures:')) break;
    if (!line.includes('[smoke]') && !line.includes('[unit]')) continue;
    for (const pattern of TEMPORARY) {
      const [file] = pattern.exec(line) ?? [];
      if (file === undefined) continue;
      const number = numbers.get(file) ?? numbers.size;
      numbers.set(file, number);
      line = line.replaceAll(new RegExp(pattern, 'gu'), `/tmp/${number}`);
    }
    if (isSummary(line)) continue;
    const name = (line.split('...', 1)[0] ?? '').trim();
    const [, status] = RESULTS.find(([text]) => line.includes(text)) ?? [];
    if (status !== undefined) found.set(name, status);
    else if (!found.has(name)) found.set(name, 'FAILED');
  }
  return found;
};
