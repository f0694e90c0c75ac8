/** The child's side of `json-process.ts`: reads a call per line of JSON, and writes its answer or error as a line. */

import { createInterface } from 'node:readline';

export type Calls = Readonly<Record<string, (given: never) => Promise<object>>>;

/** Answers calls one after the other until stdin ends; all other output goes to stderr. */
export async function answerCalls(calls: Calls): Promise<void> {
  console.log = console.error;
  for await (const line of createInterface({ input: process.stdin })) {
    const { call, ...given } = JSON.parse(line) as { readonly call: string };
    let answer: object;
    try {
      const wanted = calls[call];
      if (wanted === undefined) throw new TypeError(`there is no call ${call}`);
      answer = await wanted(given as never);
    } catch (error) {
      answer = { error: error instanceof Error ? `${error.name}: ${error.message}` : String(error) };
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`);
  }
}
