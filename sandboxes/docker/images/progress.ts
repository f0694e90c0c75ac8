/**
 * The daemon's reports on a pull or an import: one JSON document per line. An error may be such a document, although
 * the answer has status 200. A stream that sends nothing for too long is closed.
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

/** An error in the daemon's reports; its message is the daemon's own. */
export class DaemonRefused extends Error {
  override readonly name = 'DaemonRefused';
}

/**
 * Returns after the stream ended without an error. Errors: `DaemonRefused`; `SandboxUnavailable` if it sent nothing.
 */
export async function followReports(
  stream: Readable,
  onReport: (report: PullReport) => void,
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
      for (const line of lines) reportLine(line, onReport);
    }
    reportLine(rest, onReport);
  } catch (error) {
    if (fellSilent) throw new SandboxUnavailable(`the daemon sent nothing for ${silentMs / 1000} s`);
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

function reportLine(line: string, onReport: (report: PullReport) => void): void {
  if (line.trim() === '') return;
  const report = JSON.parse(line) as PullReport;
  const error = report.errorDetail?.message ?? report.error;
  if (error !== undefined) throw new DaemonRefused(error);
  onReport(report);
}
