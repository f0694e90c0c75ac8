/** The thread of `parquetRows`: reads the file of its data slice by slice, one for each message. */

import { parentPort, workerData } from 'node:worker_threads';
import { parquetSlices, plain } from './parquet-slices.ts';

export interface ParquetPart {
  readonly rows: ReadonlyArray<Record<string, unknown>>;
  /** Absent: there is more. Empty: the file has ended. Else what is wrong with the next row. */
  readonly end?: string;
}

const slices = parquetSlices(workerData as string);

async function next(): Promise<ParquetPart> {
  const rows: Array<Record<string, unknown>> = [];
  try {
    const { value, done } = await slices.next();
    if (done === true) return { rows, end: '' };
    for (const row of value) rows.push(plain(row) as Record<string, unknown>);
    return { rows };
  } catch (error) {
    return { rows, end: error instanceof Error && error.message !== '' ? error.message : 'it cannot be read' };
  }
}

parentPort?.on('message', () => void next().then((part) => parentPort?.postMessage(part)));
