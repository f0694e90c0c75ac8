/** The thread that parses files: one request, one answer, in order. */

import { parentPort } from 'node:worker_threads';
import { parseFile, type ParsedFile } from './parse-file.ts';

export interface ParseRequest {
  readonly number: number;
  readonly files: ReadonlyArray<{ readonly path: string; readonly text: string }>;
}

/** `undefined` for a file that could not be parsed. */
export interface ParseAnswer {
  readonly number: number;
  readonly files: ReadonlyArray<ParsedFile | undefined>;
}

const port = parentPort;
let last: Promise<void> = Promise.resolve();
port?.on('message', ({ number, files }: ParseRequest) => {
  last = last.then(async () => {
    const parsed: Array<ParsedFile | undefined> = [];
    for (const { path, text } of files) parsed.push(await parseFile(path, text).catch(() => undefined));
    port.postMessage({ number, files: parsed } satisfies ParseAnswer);
  });
});
