/**
 * The daemon's reports on a pull or an import: a JSON document a line, and an error may be one of them inside of an
 * answer that began as 200. A stream that says nothing for long is given up.
 */

import type { Readable } from 'node:stream';

import { SandboxUnavailable } from '../../sandbox.ts';

const SILENT_MS = 120_000;

export interface PullReport {
  readonly status?: string;
  readonly id?: string;
  readonly progressDetail?: { readonly current?: number; readonly total?: number };
  readonly error?: string;
  readonly errorDetail?: { readonly message?: string };
}

/** What the daemon said of a pull or an import, word for word. */
export class DaemonRefused extends Error {
  override readonly name = 'DaemonRefused';
}

/** Returns when the stream has ended without an error. Errors: `DaemonRefused`; `SandboxUnavailable` when it fell silent. */
export async function followReports(
  stream: Readable,
  hear: (report: PullReport) => void,
  silentMs: number = SILENT_MS,
): Promise<void> {
  let fellSilent = false;
  const giveUp = (): void => {
    fellSilent = true;
    stream.destroy(new Error('silent'));
  };
  let timer = setTimeout(giveUp, silentMs);
  let rest = '';
  try {
    for await (const chunk of stream.setEncoding('utf8')) {
      clearTimeout(timer);
      timer = setTimeout(giveUp, silentMs);
      const lines = (rest + String(chunk)).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) hearLine(line, hear);
    }
    hearLine(rest, hear);
  } catch (error) {
    if (fellSilent) throw new SandboxUnavailable(`the daemon said nothing for ${silentMs / 1000} s`);
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

function hearLine(line: string, hear: (report: PullReport) => void): void {
  if (line.trim() === '') return;
  const report = JSON.parse(line) as PullReport;
  const error = report.errorDetail?.message ?? report.error;
  if (error !== undefined) throw new DaemonRefused(error);
  hear(report);
}
